"""Arguments and batches that `replicate` refuses, and its errors; see `bodies.py`."""

import ast
import importlib
import pathlib
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

import bodies
import replicate
from bodies import DEVICES, EVAL, TRAIN, as_model_fn, build, good, matching, session

TESTS = pathlib.Path(__file__).resolve().parents[1]
WITH_CASES = (
    "test_devices",
    "test_loss_scale",
    "test_normalization",
    "test_step_reads",
    "test_tower_optimizer",
    "arguments/test_bad_input",
    "arguments/test_call_arguments",
    "arguments/test_named",
    "batch/test_sharding",
    "bench/test_bench",
    "checking/test_check_gpus",
    "clusters/test_cluster_graph",
    "clusters/test_cluster_strategy",
    "clusters/test_rounds",
    "clusters/test_stall",
    "comparing/test_compare",
    "compat/test_estimator_revival",
    "compat/test_keras_class",
    "compat/test_moved_modules",
    "compat/test_renamed",
    "engines/test_distribute",
    "engines/test_tpu",
    "engines/test_tpu_specs",
    "engines/test_tpu_training",
    "faults/test_cancelled_steps",
    "faults/test_damaged_checkpoints",
    "faults/test_nan_batch",
    "faults/test_preemption",
    "layouts/test_registry",
    "migration/test_contrib_errors",
    "migration/test_contrib_modules",
    "migration/test_fixing",
    "migration/test_scan_command",
    "optimizer/test_accumulation",
    "optimizer/test_gradients",
    "optimizer/test_overrides",
    "optimizer/test_scaled_training",
    "partition/test_cross_replica",
    "partition/test_gradients_outside",
    "planning/test_plan",
    "reduction/test_reduction",
    "reports/test_report",
    "towers/test_bad_models",
    "towers/test_own_training",
    "towers/test_prefetching",
    "towers/test_replicas",
    "towers/test_summaries",
)

# The rules of `hooks.py`, and the pattern in `test_hooks.py` that looks for each.
RULES_OF_HOOKS = {
    "but not both; got total_steps=": r"not both; got total_steps=5 and steps=3",
    "`every_secs` must be at least 0": r"`every_secs` must be .*but is {value}",
    "`log_secs` must be at least 0": r"`log_secs` must be .*or None, but is {value}",
    "Summaries go into the directory": r"Summaries go into .*`config` must be a `RunConfig`",
    "but the graph has no global step": r"no global step\. Call `tf",
    "`tqdm`, which does not import here": r"`tqdm`, which does not import",
    "` must be an integer greater than 0, but is": r"`{name}` must be an integer {message}",
    "` must name a tensor of the training graph": r"`{}` must name a tensor .*none called",
    "` must be a tensor or the name of one, but is": r"must be a tensor or the name of one, but is",
    "` must be a tensor of shape [], but": r"`{}` must be .*shape \[\], but",
}

# Likewise, that `test_distribute.py` looks for.
RULES_OF_REPLICAS = {
    "All towers must make the same rendezvous in the same order, but replica 0 is at ": (
        "All towers must make the same rendezvous in the same order, but replica 0 is at "
    ),
    "Replicas of tf.distribute meet on TensorFlow 2 only": "meet on TensorFlow 2 only",
}

Reduction = tf.losses.Reduction
EXIST = "`devices` must exist, but…{} does not…Those that do: /device:CPU:0"
CLIP_NORM = "`clip_norm` must be a positive number that is finite in float32"
STRATEGY = "runs a model on all devices by itself…was called under MirroredStrategy…Drop `train_dis"
WRAPS = "`TowerOptimizer` wraps an optimizer with…but got {}…`tf.train.AdamOptimizer(1e-3)`"

ARGUMENTS = [
    ({"devices": []}, "at least one device…is empty…Pass None"),
    (
        {"devices": ["/cpu:0", "/cpu:1", "CPU:0"]},
        "`devices` must name each device once…/device:CPU:0 is there more than once in "
        "['/cpu:0', '/cpu:1', 'CPU:0']…replicate.session_config(devices)",
    ),
    ({"devices": "/cpu:0"}, "`devices` must be a list of device names…'/cpu:0'…Pass"),
    ({"devices": 2}, "`devices` must be a list of device names…is 2…Pass"),
    ({"devices": ["/gpu"]}, "named by its type and index, like '/gpu:0'…got '/gpu'"),
    ({"devices": ["/gpu:*"]}, "named by its type and index, like '/gpu:0'…got '/gpu:*'"),
    ({"devices": [0]}, "named by its type and index, like '/gpu:0'…got 0"),
    ({"devices": ["/gpu:7"]}, EXIST.format("/device:GPU:7") + "…Pass devices that exist"),
    ({"consolidation_device": "/gpu:7"}, EXIST.format("/device:GPU:7")),
    (
        {"loss_reduction": Reduction.NONE},
        "must say how `model_fn` reduces its loss…is `Reduction.NONE`…Pass `SUM` if",
    ),
    ({"loss_reduction": "mean"}, "`loss_reduction` must be one of…weighted_sum…but is 'mean'"),
    (  # The second argument before TensorFlow 1.5.
        {"loss_reduction": tf.train.AdamOptimizer},
        "`loss_reduction` must be a `tf.losses.Reduction`…AdamOptimizer…inside `model_fn`: "
        "`optimizer = replicate.TowerOptimizer(optimizer)`",
    ),
    (
        {"variable_placement": "cpu"},
        "`variable_placement` must be one of…'consolidation', 'round_robin'…but is 'cpu'",
    ),
    ({"per_tower": 1}, "`per_tower` must be True or False, but is…1"),
    (
        {"batch_norm": "rows"},
        "` must be 'tower' or 'batch', but is…'rows': by each tower for its rows, or for all",
    ),
    ({"random": True}, "`random` must be 'tower' or 'batch', but is True"),
    (
        {"per_tower": True, "batch_norm": "batch"},
        "The program of one tower or TPU core only has its own rows, but `batch_norm` is…'batch' "
        "and `random`…'tower'. Leave them out, and use `replicate.batch_normalization`",
    ),
    ({"model_fn": 3}, "`model_fn` must be a function…is 3"),
]


@pytest.mark.parametrize(("kwargs", "phrases"), ARGUMENTS, ids=lambda value: str(value)[:40])
def test_arguments_of_replicate_model_fn(kwargs, phrases):
    with pytest.raises((TypeError, ValueError), match=matching(phrases)):
        replicate.replicate_model_fn(**{"model_fn": as_model_fn(good), **kwargs})


BAD_NORMS = [0, -1.0, np.nan, np.float32(-2), np.int64(0), "one", np.inf, 1e39, 10**400]


@pytest.mark.parametrize("norm", BAD_NORMS, ids=lambda norm: str(norm)[:9])
def test_clip_norm(norm):
    with pytest.raises((TypeError, ValueError), match=matching(f"{CLIP_NORM}…but is…{norm}")):
        replicate.TowerOptimizer(tf.train.AdamOptimizer(), clip_norm=norm)


@pytest.mark.parametrize(
    ("call", "error", "phrases"),
    [
        (lambda: replicate.TowerOptimizer(0.1), TypeError, WRAPS.format(0.1)),
        (
            lambda: replicate.TowerOptimizer(tf2.keras.optimizers.Adam()),  # replicate: ignore
            TypeError,
            "Towers cannot train with …count steps but update no variable. Take one of `tf.train`",
        ),
        (
            lambda: replicate.TowerOptimizer(lambda: "adam").get_name(),
            TypeError,
            WRAPS.format("'adam'"),
        ),
        (
            lambda: replicate.TowerOptimizer(tf.train.AdamOptimizer(), transform_gradients=1),
            TypeError,
            "`transform_gradients` must be a function of…is 1",
        ),
        (
            lambda: replicate.TowerOptimizer(tf.train.AdamOptimizer()).minimize(
                tf.constant(1.0) + 0 * tf.stop_gradient(tf.get_variable("w", []))
            ),
            ValueError,
            "At least one variable must have a gradient…'w:0'…add:0…Check that",
        ),
        (
            lambda: replicate.metrics.declare_merge([], "max"),
            TypeError,
            "`merge` must be a function of stacked values…'max'",
        ),
        (
            lambda: replicate.session_config(DEVICES[:2], device_count={"CPU": 1}),
            ValueError,
            EXIST.format("/device:CPU:1") + "…replicate.session_config(devices)",
        ),
        (
            lambda: replicate.cross_tower_sum(tf.constant("text")),
            TypeError,
            "Only numeric tensors can be summed over towers…string…Cast it first",
        ),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_arguments_of_others(call, error, phrases):
    with pytest.raises(error, match=matching(phrases)):
        call()


def test_cpus_that_the_sessions_of_a_run_config_lack():
    config = replicate.estimator.RunConfig(session_config=tf.ConfigProto())
    replicated = replicate.replicate_model_fn(
        lambda features, config: pytest.fail("too late"), devices=DEVICES[:2]
    )
    phrases = EXIST.format("/device:CPU:1") + "…`session_config=replicate.session_config(devices)`"
    with pytest.raises(ValueError, match=matching(phrases)):
        replicated(tf.ones([4]), None, TRAIN, config=config)


OWN_SIZE = (
    "`params['batch_size']` is the size of a tower's shard if…built once for all towers…"
    "[2, 2, 1] rows…a multiple of 3 rows…`per_tower_batch_size=False`"
)


def test_shards_of_other_sizes_than_a_model_for_tpus_has():
    def model_fn(features, mode, params):
        pytest.fail(f"too late: {params['batch_size']}")

    replicated = replicate.replicate_model_fn(
        model_fn, devices=DEVICES, per_tower=True, per_tower_batch_size=True
    )
    with pytest.raises(ValueError, match=matching(OWN_SIZE)):
        replicated(tf.ones([5, 1]), None, TRAIN, params={"batch_size": 5})


def test_a_call_outside_of_a_graph(monkeypatch):
    replicated = replicate.replicate_model_fn(as_model_fn(good), devices=DEVICES)
    monkeypatch.setattr(tf, "executing_eagerly", lambda: True)
    phrases = "builds a graph, but was called outside of one…`with tf.Graph().as_default():`"
    with pytest.raises(RuntimeError, match=matching(phrases)):
        replicated(tf.ones([5, 1]), None, TRAIN)


@pytest.mark.filterwarnings("ignore::UserWarning")  # TensorFlow's own, about `tf.data` options.
@pytest.mark.parametrize("phase", ["train", "eval"])
def test_a_distribution_strategy(tmp_path, phase):
    config = replicate.estimator.RunConfig(
        session_config=replicate.session_config(DEVICES[:2]),
        **{f"{phase}_distribute": tf.distribute.MirroredStrategy(["/cpu:0"])},
    )
    model_fn = replicate.replicate_model_fn(as_model_fn(good), devices=DEVICES[:2])
    estimator = replicate.estimator.Estimator(model_fn, str(tmp_path), config)
    run = estimator.train if phase == "train" else estimator.evaluate
    with pytest.raises(ValueError, match=matching(STRATEGY)):
        run(lambda: tf.data.Dataset.from_tensors(tf.ones([4, 1])), steps=1)


SAME_ROWS = "All tensors of a batch must have the same number of rows (axis 0)"
NO_ROWS = "A training batch must have a row…this one has none…`dataset.filter`"


@pytest.mark.parametrize(
    ("features", "mode", "phrases"),
    [
        (
            lambda: {"a": tf.ones([6]), "b": [tf.ones([5, 2])]},
            EVAL,
            SAME_ROWS + "…features/a has 6…features/b/0 has 5…`params`",
        ),
        (lambda: tf.ones([0, 1]), TRAIN, NO_ROWS),
    ],
)
def test_batches(features, mode, phrases):
    with pytest.raises(ValueError, match=matching(phrases)):
        build(lambda *_: pytest.fail("too late"), features(), mode, num_towers=3)


def _unknown(value):
    return tf.placeholder_with_default(value, [None] + [None] * (np.ndim(value) - 1))


SPARSE = tf.SparseTensorValue([[0, 0]], [1.0], [5, 1])


@pytest.mark.parametrize(
    ("features", "mode", "phrases"),
    [
        (lambda: _unknown(np.ones([0, 1])), TRAIN, NO_ROWS),
        (
            lambda: {"a": _unknown(np.ones([4])), "b": _unknown(np.ones([5, 1]))},
            TRAIN,
            SAME_ROWS + "…features/a, features/b…4 5…`params`",
        ),
        (
            lambda: {"a": tf.ones([4]), "b": _unknown(np.ones([5, 1]))},
            EVAL,
            SAME_ROWS + "…features/b…5…4…`params`",
        ),
        (
            lambda: {
                "a": tf.ones([4]),
                "b": tf.SparseTensor(*[_unknown(np.array(part)) for part in SPARSE]),
            },
            EVAL,
            SAME_ROWS + "…features/b…5…4…`params`",
        ),
        (
            lambda: {
                "a": tf.ones([3]),
                "b": tf.RaggedTensor.from_row_lengths([1.0], _unknown([1])),
            },
            EVAL,
            SAME_ROWS + "…features/b…1…3…`params`",
        ),
    ],
)
def test_batches_of_dynamic_size(features, mode, phrases):
    def body(index, features):
        parts = tf.nest.flatten(features, expand_composites=True)
        total = sum(tf.reduce_sum(tf.cast(part, tf.float32)) for part in parts)
        weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        update = replicate.merge_call(lambda sums: weight.assign(tf.add_n(sums)), total)
        ran.append(weight)
        return bodies.spec(mode, total, update)

    ran = []
    made = build(body, features(), mode, num_towers=3)
    with session() as running:
        running.run(tf.global_variables_initializer())
        for fetch in (made.train_op, made.loss):
            with pytest.raises(tf.errors.InvalidArgumentError, match=matching(phrases)):
                running.run(fetch)
        assert running.run(ran[0]) == 0  # Nothing was updated before the check.


def test_every_error_has_a_case():
    modules = [_module(name) for name in WITH_CASES]
    rules = {rule for rule in bodies.rules_in(modules) if len(rule) > 11}
    rules.update(RULES_OF_HOOKS, RULES_OF_REPLICAS)
    errors = list(_errors())
    assert len(errors) > 30  # The walk finds them.
    lacking = [error for error in errors if not any(rule in error[1] for rule in rules)]
    assert not lacking, "errors that no test knows by their text: " + "\n".join(map(str, lacking))


@pytest.mark.parametrize(
    ("module", "rules"),
    [("test_hooks.py", RULES_OF_HOOKS), ("test_distribute.py", RULES_OF_REPLICAS)],
)
def test_rules_that_are_looked_for_by_patterns_have_tests(module, rules):
    (path,) = TESTS.rglob(module)
    tests = path.read_text()
    assert [pattern for pattern in rules.values() if pattern not in tests] == []


def _module(name):
    """Returns a module of tests by its path, without its ending, as pytest imports it."""
    directory, _, module = name.rpartition("/")
    if (TESTS / directory / "__init__.py").exists():
        return importlib.import_module(f"{directory}.{module}")
    path = str(TESTS / directory)
    if path not in sys.path:
        sys.path.append(path)
    return importlib.import_module(module)


def _errors():
    """Yields place and text of every error that the library raises by itself."""
    for path in bodies.source_files():
        module = ast.parse(path.read_text())
        named = {}
        for node in module.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                named[node.targets[0].id] = node.value
            if isinstance(node, ast.FunctionDef):
                named[node.name] = [n.value for n in ast.walk(node) if isinstance(n, ast.Return)]
        for node in ast.walk(module):
            # A bare name is raised again; a class of this module without a text is no error.
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                text = _text(node.exc.args, named)
                if text != "{}":  # `AttributeError(name)` is Python's own protocol.
                    yield f"{path.name}:{node.lineno}", text


def _text(node, named):
    """Returns the text that `node` makes, with {} for what is only known when it runs."""
    if isinstance(node, list):
        return "".join(_text(part, named) for part in node)
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return _text(node.values, named)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, named)
    if isinstance(node, ast.BinOp):
        return _text(node.left, named) + _text(node.right, named)
    name = getattr(getattr(node, "func", node), "id", None)
    return _text(named[name], named) if name in named else "{}"
