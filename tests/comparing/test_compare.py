"""`replicate.compare` reports models that are equal, and models that are not."""

import io
import json
import math
import random
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import compared_models as models
import contract
import programs
import replicate
import versions
from bodies import matching, variables
from compared_models import input_fn, line
from replicate.comparing import batches as batches_lib
from replicate.comparing import command, task
from replicate.comparing.deviations import Tally, deviation, tolerance_of

THREE = ["/cpu:0", "/cpu:1", "/cpu:2"]
Reduction = tf.losses.Reduction

RUN_CONFIG = replicate.estimator.RunConfig
ERRORS = [
    ({"model_fn": 3}, "` to compare with must be a function, but is…3"),
    ({"input_fn": None}, "` to compare with must be a function, but is…None"),
    (
        {"model_fn": replicate.replicate_model_fn(models.equal)},
        "must be the function of one device, but is a result of `replicate_model_fn`…Pass the p",
    ),
    ({"steps": 0}, "` to compare must be a whole number >= 1, but is…0…Pass e.g. 5"),
    ({"steps": 2.0}, "` to compare must be a whole number >= 1, but is…2.0"),
    ({"tolerance": 0}, "`tolerance` must be a finite number greater than 0, but is…0…Leave it out"),
    ({"tolerance": float("inf")}, "must be a finite number greater than 0, but is inf"),
    ({"config": {"tf_random_seed": 1}}, "`config` must be a `RunConfig`, but is…{'tf_random_seed"),
    (
        {"config": RUN_CONFIG(train_distribute=tf.distribute.OneDeviceStrategy("/cpu:0"))},
        "One device trains without a strategy, but the `RunConfig` has…train_distribute…Leave it",
    ),
    (
        {"devices": ["/cpu:0"]},
        "`devices` to compare with one device must be several…CPU:0…Pass e.g. ['/cpu:0', '/cpu:1']",
    ),
    ({"devices": ["/gpu:0", "/gpu:1"]}, "`devices` must exist, but /device:GPU:0 does not"),
    (
        {"checkpoint_path": "/no such"},
        "`checkpoint_path` must name a checkpoint, or a…'/no such'…Leave it out",
    ),
    ({"loss_reduction": "mean"}, "`loss_reduction` must be one of"),
    ({"unknown": 1}, "unexpected keyword argument 'unknown'"),
    (
        {"input_fn": lambda: input_fn().take(0)},
        "An input must give at least one batch to compare, but…<lambda>…Let it return data",
    ),
    (
        {"input_fn": lambda: (1, 2, 3)},
        "`input_fn` must return a dataset, features, or a pair…returned 3…into one dict",
    ),
]
CLUSTER = "Towers are compared with one device in one process, but…2 workers and 1…Unset TF_CONFIG"
NO_START = (
    "A run must write its checkpoints in its `model_dir`…there is none…Drop the `CheckpointSaver"
)


def compare(model_fn, input_fn=input_fn, **kwargs):
    return replicate.compare(model_fn, input_fn, file=io.StringIO(), **kwargs)


def never(features, labels, mode):
    pytest.fail("too late")


def explained(made):
    return {(one.kind, one.line) for one in made.explanations}


@pytest.mark.parametrize(("given", "phrases"), ERRORS, ids=[text[:50] for _, text in ERRORS])
def test_what_it_refuses(given, phrases):
    with pytest.raises((TypeError, ValueError), match=matching(phrases)):
        compare(**{"model_fn": never, **given})


def test_a_cluster_is_refused(monkeypatch):
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"], "ps": ["localhost:3"]}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with pytest.raises(ValueError, match=matching(CLUSTER)):
        compare(models.equal)


def test_a_model_that_saves_elsewhere_is_refused(tmp_path):
    def model_fn(features, labels, mode):
        saver = tf.train.CheckpointSaverHook(str(tmp_path), save_steps=1)
        return models.equal(features, labels, mode)._replace(training_chief_hooks=[saver])

    with pytest.raises(ValueError, match=matching(NO_START)):
        compare(model_fn)


@pytest.mark.usefixtures("resource_variables")
def test_small_deviations_without_a_cause_may_be_rounding():
    made = compare(models.weighted, devices=THREE)
    (loss, *losses), text = made.losses, "but rounding may"

    def with_deviation(value):
        beyond = loss.deviation._replace(value=value)
        return made._replace(losses=(loss._replace(deviation=beyond), *losses))

    assert text in str(with_deviation(1e-4)) and text not in str(made)
    assert text not in str(with_deviation(0.1))
    assert text not in str(with_deviation(1e-4)._replace(tolerance=1e-9))
    # Where losses agree, what deviates is next to nothing, but not if it is not there at all.
    first, *rest = made.variables
    for value, is_told in ((0.9, True), (float("inf"), False)):
        lone = made._replace(variables=(first._replace(value=value), *rest))
        assert (text in str(lone)) == is_told


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("equal", {}),
        pytest.param("equal", {"variable_placement": "replicated"}, marks=pytest.mark.thorough),
        ("whole_batch_norm", {}),
        ("means", {}),
        pytest.param("weighted", {}, marks=pytest.mark.thorough),  # In float32, like `means`.
        ("root_of_mean", {}),
        ("summed", {"loss_reduction": Reduction.SUM}),
        ("summed", {}),
        ("root", {}),
        ("count", {}),
        ("pairs", {}),
        ("largest", {}),
        ("batch_norm", {}),
        ("stateless", {}),
        ("python", {}),
        ("update", {}),
        ("late", {}),
        ("drawn", {}),
        ("starts_anywhere", {}),
        ("starts_after_a_check", {}),
    ],
)
def test_models_that_are_equal(name, options):
    made = compare(getattr(models, name), devices=THREE, **options)
    assert made.equal, made
    assert made.tolerance == 1e-9 or name in (
        "means",
        "weighted",
    )  # `tf.losses` computes in float32.
    assert not made.explanations
    assert not made.warnings and not made.not_compared
    assert made.parted is None and len(made.devices) == 3
    assert made.rows == (7, 7, 7, 7, 5)
    assert [loss.step for loss in made.losses] == [1, 2, 3, 4, 5]
    names = {one.what for one in made.variables}
    assert {"global_step", "hidden/kernel", "output/bias/Momentum"} <= names
    assert names <= {one.what for one in made.checkpoint}
    assert {one.what for one in made.metrics} == {"absolute", "loss", "global_step"}
    assert [one.what for one in made.predictions] == ["y"]
    assert all(one.value < 1e-9 for one in made.variables) or name in ("means", "weighted")
    assert "\nEQUAL within" in str(made)


def test_batches_that_are_accumulated():
    """A step is a batch, whether the global step counts it or not."""
    made = compare(models.accumulates)
    assert made.equal and len(made.losses) == 5


def test_random_numbers_that_are_drawn_once():
    made = compare(models.gradient_noise)
    assert made.equal and not made.explanations


def test_a_spec_for_tpus():
    made = compare(models.for_tpus, params={}, steps=2)
    assert made.equal and made.metrics and made.predictions


# Each with the kind and line of what parts it from one device, and the step of its loss.
DIFFERENT = [
    ("dropout", "random", 1),
    pytest.param("noise", "random", 1, marks=pytest.mark.thorough),
    ("function", "random", 1),
    ("fused", "batch norm", 1),
]


@pytest.mark.usefixtures("resource_variables")
@pytest.mark.parametrize(("name", "kind", "step"), DIFFERENT)
def test_models_that_differ_and_why(name, kind, step):
    made = compare(getattr(models, name), steps=3)
    assert not made.equal
    assert explained(made) == {(kind, line(name))}
    beyond = [loss.step for loss in made.losses if not loss.deviation.passes]
    assert beyond[:1] == [step]
    assert [loss.deviation.step for loss in made.losses if not loss.deviation.passes] == beyond
    assert made.parted is not None and made.worst.excess > 1
    text = str(made)
    assert "DIFFERENT: " in text and line(name) in text and f"  {kind}: " in text
    assert {one.what for one in made.predictions if not one.passes} == {"y"}


@pytest.mark.parametrize("of_references", [False, True])
def test_a_step_that_the_model_counts(of_references):
    with variables(of_references):
        assert explained(compare(models.counts)) == {("global step", line("counts"))}
        made = compare(models.counts, read_step_first=True)
    assert made.equal and not made.explanations


def test_batch_norm_by_all_rows_explains_nothing():
    made = compare(models.fused, steps=3, batch_norm="batch")
    assert made.equal and not made.explanations


def test_the_first_step_and_variable_at_which_they_part():
    filters = list(tf.get_logger().filters)
    made = compare(models.late, original=models.late_of_first, steps=5)
    assert (made.parted.what, made.parted.step) == ("late", 3)
    assert [(one.what, one.step) for one in made.variables if not one.passes] == [("late", 3)]
    # Features of the last and of the first row of each batch, relative to the largest.
    x = models.data()[0]["x"][:, 0]
    values = [(x[20], x[14]), (x[27], x[21]), (x[32], x[28])]
    apart = max(abs(want - got) for got, want in values) / max(4.0, *(want for _, want in values))
    (found,) = (one.value for one in made.variables if one.what == "late")
    assert found == pytest.approx(apart)
    assert "DIFFERENT: after step 3, 'late' by " in str(made)
    assert not made.warnings
    assert tf.get_logger().filters == filters


def test_a_start_that_is_not_the_checkpoint():
    made = compare(models.starts_apart, steps=1)
    assert not made.equal
    assert (made.parted.what, made.parted.step) == ("apart", 0)
    assert "DIFFERENT: before the first step, 'apart' by" in str(made)


def test_a_variable_that_only_one_of_them_has():
    made = compare(models.here, original=models.there, steps=2)
    found = {one.what: (one.note, one.step) for one in made.variables if not one.passes}
    assert found == {"here": ("only on towers", 0), "there": ("only on one device", 0)}
    assert made.parted.step == 0 and not made.equal
    assert all(loss.deviation.passes for loss in made.losses)


def test_losses_that_are_no_numbers():
    made = compare(models.no_number, steps=3)
    assert not made.equal
    assert len(made.losses) == 1 and math.isnan(made.losses[0].towers)
    assert made.losses[0].deviation.note == "not finite on one device and towers"
    assert "a loss is not finite" in str(made)
    assert json.loads(json.dumps(made.as_dict()))["losses"][0]["one_device"] is None
    assert made.not_compared == ("metrics and predictions: the loss of one device is no number",)


def test_a_model_that_trains_alone():
    made = compare(models.trains_alone, steps=1)
    assert made.equal and not made.metrics and not made.predictions
    assert made.not_compared == (
        "metrics: one device raises NotImplementedError: it only trains",
        "predictions: one device raises NotImplementedError: it only trains",
    )


EMPTY = "`predictions` must hold a tensor, but is {}"


def test_a_model_that_predicts_nothing():
    made = compare(models.predicts_nothing, steps=1)
    assert made.equal and made.metrics and not made.predictions
    assert made.not_compared == (f"predictions: one device raises ValueError: {EMPTY}",)


def test_the_original_runs_on_one_device():
    losses = []
    for model_fn in (models.root, models.equal):
        random.seed(1)  # On some versions, initialisers use it.
        made = compare(model_fn, original=models.equal, steps=1)
        losses.append(made.losses[0])
        assert made.equal == (model_fn is models.equal)
    assert losses[0].one_device == losses[1].one_device


def test_evaluation_has_an_input_of_its_own():
    seen = []

    def eval_input_fn(mode, params, config):
        seen.append((mode, params, config.tf_random_seed))
        return input_fn().take(1).map(lambda x, y: ({**x, "extra": y}, y))

    made = compare(models.measured_elsewhere, eval_input_fn=eval_input_fn, steps=2)
    assert made.equal and seen == [("eval", None, 1)] and not made.not_compared
    (of_one,) = (one for one in made.predictions if one.what == "y")
    assert of_one.passes
    whole = compare(models.fused, steps=2)
    assert [one.step for one in whole.predictions] == [1]


def test_the_options_of_sessions_are_the_users():
    sessions = tf.ConfigProto(device_count={"CPU": 3}, log_device_placement=True)
    config = RUN_CONFIG(session_config=sessions, model_dir="not/to/be/written")
    asked = task.make_task(models.equal, input_fn, config=config)
    assert asked.devices == ("/device:CPU:0", "/device:CPU:1", "/device:CPU:2")
    assert asked.config.session_config.log_device_placement
    assert asked.config.session_config.allow_soft_placement
    asked = task.make_task(models.equal, input_fn, config=config, devices=["/cpu:0", "/cpu:4"])
    assert asked.config.session_config.device_count["CPU"] == 5
    assert len(task.make_task(models.equal, input_fn).devices) == 2


def test_a_tolerance_of_ones_own():
    strict = compare(models.equal, tolerance=1e-18, steps=2)
    assert not strict.equal and strict.tolerance == 1e-18
    assert compare(models.dropout, tolerance=10, steps=1).equal


def _files(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_it_starts_from_a_checkpoint_and_leaves_files_alone(tmp_path):
    config = RUN_CONFIG(model_dir=str(tmp_path), keep_checkpoint_max=1)
    estimator = replicate.estimator.Estimator(models.equal, config=config)
    estimator.train(input_fn, steps=2)
    before = _files(tmp_path)
    made = compare(models.equal, config=config, checkpoint_path=str(tmp_path), steps=1)
    assert _files(tmp_path) == before and made.equal
    recorder = contract.LossRecorder()
    estimator.train(lambda: input_fn().take(1), [recorder])
    assert recorder.losses == [made.losses[0].one_device]
    fresh = compare(models.equal, config=config, steps=1)
    assert fresh.losses[0].one_device != made.losses[0].one_device


def test_a_warm_start(tmp_path):
    estimator = replicate.estimator.Estimator(models.equal, model_dir=str(tmp_path))
    estimator.train(input_fn, steps=3)
    made = compare(models.equal, warm_start_from=str(tmp_path), steps=1)
    recorder = contract.LossRecorder()
    estimator.train(lambda: input_fn().take(1), [recorder])
    assert made.equal and recorder.losses == [made.losses[0].one_device]


def test_batches_are_read_once_and_given_as_they_are():
    """Whatever the input is: shuffled, or made of tensors of every kind."""
    numbers = np.random.RandomState(1)
    words = np.array([b"a", b"bc\0", b""], dtype=object)

    def of_all_kinds():
        dataset = tf.data.Dataset.from_tensor_slices(
            {"x": numbers.normal(size=(3, 2)), "i": np.arange(3), "s": words}
        ).batch(2)

        def more(rows):
            text = tf.constant([b"p q", b"r"])[: tf.shape(rows["i"])[0]]
            sparse = tf.sparse.from_dense(tf.cast(rows["x"] > 0, tf.float32))
            ragged = tf.strings.split(text, " ", result_type="RaggedTensor")
            return {**rows, "sparse": sparse, "ragged": ragged}, (tf.constant(7), rows["i"] > 0)

        features, labels = tf.data.make_one_shot_iterator(dataset.map(more)).get_next()
        word = tf.constant(b"z\0")
        return {**features, "none": None, "number": 3, "word": word}, labels

    read = batches_lib.read(of_all_kinds, "train", None, RUN_CONFIG(), 5)
    assert len(read) == 2 and read.rows == (2, 1)
    given = read.input_fn()()
    tensors = tf.nest.flatten(given, expand_composites=True)
    want = [(t.dtype, t.shape.as_list()) for t in read.tensors]
    assert [(t.dtype, t.shape.as_list()) for t in tensors if tf.is_tensor(t)] == want
    assert given[0]["none"] is None and given[0]["number"] == 3
    assert given[0]["x"].shape.as_list() == [None, 2] and isinstance(given[1], tuple)
    assert isinstance(given[0]["sparse"], tf.SparseTensor)
    with tf.Session() as session:
        first, second = (
            session.run({k: v for k, v in given[0].items() if k not in ("none", "number")})
            for _ in range(2)
        )
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(given[1])
    assert first["s"].tolist() == [b"a", b"bc\0"] and second["s"].tolist() == [b""]
    assert first["i"].tolist() == [0, 1] and second["i"].tolist() == [2]
    assert first["ragged"].to_list() == [[b"p", b"q"], [b"r"]]
    assert first["word"] == b"z\0"
    assert second["sparse"].dense_shape.tolist() == [1, 2]


def test_a_shuffled_input_is_the_same_for_both():
    params = {"size": 5}

    def model_fn(features, labels, mode, params):
        return models.equal(features, labels, mode)

    shuffled = models.shuffled_input_fn
    made = compare(model_fn, shuffled, params=params, eval_input_fn=shuffled, steps=10)
    assert made.equal and made.rows == (5,) * 6 + (3,)
    assert not compare(models.fused, eval_input_fn=input_fn).equal


def test_the_report_is_printed_and_fits(capsys):
    made = replicate.compare(models.late, input_fn, original=models.late_of_first, steps=3)
    assert capsys.readouterr().out == f"{made}\n"
    rows = [row for row in str(made).splitlines() if "compared_models.py" not in row]
    assert max(map(len, rows)) <= 100
    for phrase in ("what this cannot tell", "of variables and slots"):
        assert phrase in str(made)
    assert re.search(r"\n +3 +\S+ +\S+ +\S+\n", str(made))
    assert re.search(r"\n +\S+ +3  late\n", str(made))


@pytest.mark.parametrize(
    ("got", "want", "value", "note"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.2, ""),
        ([-1.0, 0.0], [1.0, 0.0], 2.0, ""),
        ([1 + 1j], [1 - 1j], math.sqrt(2), ""),
        ([1, 2], [1, 3], math.inf, "1 of 2 entries differ"),
        ([1, 2], [1, 2], 0.0, ""),
        ([b"a", b"bcd"], [b"a", b"bc"], math.inf, "1 of 2 entries differ"),
        ([0.0, 0.0], [0.0, 0.0], 0.0, ""),
        ([0.0, 1e-30], [0.0, 0.0], math.inf, "0 on one device"),
        ([math.nan], [1.0], math.inf, "not finite on towers"),
        ([math.inf], [math.inf], 0.0, ""),
        ([1.0], None, math.inf, "only on towers"),
        (None, [1.0], math.inf, "only on one device"),
        (np.float32([1]), [1.0], math.inf, "float32 (1,) instead of float64 (1,)"),
        ([[1.0]], [1.0], math.inf, "float64 (1, 1) instead of float64 (1,)"),
    ],
)
def test_deviations(got, want, value, note):
    found = deviation("it", got, want)
    assert found.value == pytest.approx(value)
    assert (found.what, found.note, found.passes) == ("it", note, value == 0)


def test_tolerances_go_by_types():
    assert tolerance_of({"float64", "float16"}) == 1e-3
    assert tolerance_of([]) == 1e-9
    assert deviation("it", np.float32(1), np.float32(1)).tolerance == 1e-5
    assert deviation("it", 1.0, 1.0, coarsest=1e-3).tolerance == 1e-3
    assert deviation("it", np.float32(1), np.float32(1), 1e-7, 1e-3).tolerance == 1e-7


def test_deviations_are_relative_to_the_largest_entry_of_any_step():
    assert deviation("it", [1.5], [1.0], largest=5.0).value == pytest.approx(0.1)
    tally = Tally(largest={"a": 5.0})
    tally.add(0, {"a": [1.5]}, {"a": [1.0]})
    assert tally.parted.value == pytest.approx(0.1)


def test_a_tally_keeps_the_largest_and_the_first():
    tally = Tally(tolerance=0.1)
    for step, values in enumerate([(1.0, 1.0), (1.05, 1.0), (1.2, 1.5), (1.0, 1.3), (1.0, 1.0)]):
        tally.add(step, dict(zip("ab", values)), {"a": 1.0, "b": 1.0})
    found = {one.what: (pytest.approx(one.value), one.step) for one in tally.deviations()}
    assert found == {"a": (0.2, 2), "b": (0.5, 2)}
    assert (tally.parted.what, tally.parted.step) == ("b", 2)


def run(*args):
    result = programs.run("-W", "ignore", "-m", "replicate", "compare", *args)
    assert "Traceback" not in result.stderr, result.stderr
    return result


MODULE = "tests.comparing.compared_models"


def test_the_terminal_says_that_models_are_equal():
    arguments = [f"{MODULE}:of_params", f"{MODULE}:input_fn", "--params", f"{MODULE}:make_params"]
    result = run(*arguments, "--config", f"{MODULE}:make_config", "--steps", "2", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    (found,) = map(json.loads, result.stdout.splitlines())
    assert found["equal"] and len(found["losses"]) == 2 and found["tolerance"] == 1e-9
    assert found["devices"] == ["/device:CPU:0", "/device:CPU:1"]


def test_the_terminal_says_that_models_differ(capsys):
    arguments = ["compared_models:dropout", "compared_models:input_fn", "--steps", "1"]
    assert command.main([*arguments, "--devices", *THREE]) == 1
    text = capsys.readouterr().out
    assert "DIFFERENT: the loss of step 1" in text
    assert "over 3 towers" in text and line("dropout") in text


def test_the_terminal_takes_options(capsys):
    arguments = ["compared_models:summed", "compared_models:input_fn", "--steps", "1"]
    arguments += ["--options", '{"variable_placement": "replicated"}']
    assert command.main([*arguments, "--loss_reduction", "SUM"]) == 0
    assert "EQUAL within" in capsys.readouterr().out
    assert command.main([*arguments, "--original", "compared_models:equal"]) == 1
    assert "DIFFERENT: the loss of step 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "phrases"),
    [
        (
            ["nothing", "compared_models:input_fn"],
            "must name an object as `module:name`,…'nothing'",
        ),
        (
            ["compared_models:none", "compared_models:input_fn"],
            "importable from here…'compared_models:none'…PYTHONPATH",
        ),
        (["no_such:a", "compared_models:input_fn"], "No module named 'no_such'"),
        (["compared_models:equal"], "the following arguments are required: input_fn"),
        (
            ["compared_models:equal", "compared_models:input_fn", "--params", "{"],
            "must be a JSON object, but…'{'…Quote it for the shell",
        ),
        (
            ["compared_models:equal", "compared_models:input_fn", "--options", '{"unknown": 1}'],
            "unexpected keyword argument 'unknown'",
        ),
        (
            ["compared_models:equal", "compared_models:input_fn", "--steps", "0"],
            "must be a whole number >= 1",
        ),
        (
            ["compared_models:equal", "compared_models:input_fn", "--tensorflow_1", "a-b"],
            "tensorflow_1 is True, False, or a tuple…'a-b'",
        ),
    ],
)
def test_flags_that_are_wrong(flags, phrases, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit) as exited:
        command.main(flags)
    assert exited.value.code == 2
    output = capsys.readouterr()
    with pytest.raises(AssertionError, match=matching(phrases)):
        raise AssertionError(output.err)
    assert not output.out


OF_VERSION_1 = """
import tensorflow as tf
from tensorflow.contrib.layers import l2_regularizer


def input_fn():
    return tf.data.Dataset.from_tensors({"x": [[1.0], [3.0]]}).repeat(2)


def model_fn(features, labels, mode):
    # Of a reference, one device may read what the step has written.
    weight = tf.get_variable("w", [1, 1], regularizer=l2_regularizer(0.5), use_resource=True)
    product = tf.matmul(features["x"], weight)
    loss = tf.losses.get_regularization_loss() + tf.reduce_mean(product)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, {"product": product}, loss, train_op)
"""


@pytest.mark.parametrize("installed", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_the_terminal_compares_files_of_version_1(tmp_path, installed):
    """Below `site-packages`, they are the program's if they are named."""
    folder = tmp_path / "site-packages" if installed else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / "of_version_1.py").write_text(OF_VERSION_1)
    options = {"root": folder, "env": {"PYTHONPATH": str(programs.ROOT)}}
    command = ["-W", "ignore", "-m", "replicate", "compare", "--steps", "1"]
    command += ["of_version_1:model_fn", "of_version_1:input_fn"]
    if installed and not versions.IS_1:
        without = programs.run(*command, **options)
        assert without.returncode == 2, without.stdout + without.stderr
        assert "No module named 'tensorflow.contrib'" in without.stderr
    result = programs.run(*command, "--tensorflow_1", *["of_version_1"] * installed, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "EQUAL within" in result.stdout
