"""Common parts of the examples: one `model_fn` on every engine, settings, the command line."""

import sys
import types

import pytest
import tensorflow.compat.v1 as tf

import replicate
from examples import data as data_lib
from examples.classifiers import commands
from examples.runs import checkpoints, engines, settings_file, summaries, training_flags
from examples.runs import command_line as program_lib
from examples.runs.command_line import BAD_INPUT, INTERRUPTED, Program, check_tensorflow
from examples.runs.errors import UserError
from examples.runs.flags import Flag, SettingsError, with_defaults
from replicate import estimator

STEPS = 4
WEIGHTS = ("dense/kernel", "dense/bias")
NOWHERE = {"devices": None, "num_towers": None, "tpu": ""}
FLAGS = (
    *training_flags.RUN,
    *training_flags.DATA,
    *training_flags.ENGINE,
    Flag("engine", str, "towers", "how to run", choices=("eager", "estimator", "towers", "tpu")),
    Flag("train_batch_size", int, 20, "images per step"),
)


def model_fn(features, labels, mode, params):
    # The values of a random initializer depend on the graph around it.
    images = tf.layers.flatten(features)
    logits = tf.layers.dense(images, params["num_classes"], kernel_initializer="zeros")
    loss = tf.losses.softmax_cross_entropy(labels, logits)
    if mode == estimator.ModeKeys.EVAL:
        return estimator.EstimatorSpec(mode, loss=loss)
    optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
    update = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    scalars = replicate.cross_tower_mean({"model/loss": loss})
    return summaries.make_spec(mode, loss, update, scalars, params)


def train(directory, engine, max_steps):
    """Trains from where the run in a directory stands; returns weights and loss after all steps."""
    given = {"checkpoint_dir": str(directory), "engine": engine, "tpu_iterations_per_loop": 2}
    params = with_defaults(given, FLAGS, training_flags.DIGITS)
    params.update(engines.resolve(params))
    data = data_lib.open_data(params)
    params.update(data.settings)
    start = checkpoints.latest_step(params["checkpoint_dir"])

    def input_fn(params, config):
        rows = params.get("batch_size", params["train_batch_size"])
        return data.input_fn("train", rows, training=True, start_step=start, config=config)

    def eval_input_fn(params):
        return data.input_fn("validation", params.get("batch_size", 30), training=False)

    trained = engines.make_estimator(model_fn, params, eval_batch_size=30)
    trained.train(input_fn, max_steps=max_steps)
    if max_steps < STEPS:
        return None
    loss = trained.evaluate(eval_input_fn, steps=3)["loss"]
    return {**{name: trained.get_variable_value(name) for name in WEIGHTS}, "loss": loss}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Returns the results of a plain Estimator."""
    return train(tmp_path_factory.mktemp("estimator"), "estimator", STEPS)


@pytest.mark.conformance
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # TPUEstimator's own
@pytest.mark.parametrize("engine", ["towers", "tpu"])
def test_engines_agree_and_resume(tmp_path, uninterrupted, engine):
    train(tmp_path / engine, engine, STEPS // 2)
    got = train(tmp_path / engine, engine, STEPS)
    for name, value in uninterrupted.items():
        assert got[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name
    tags = {
        value.tag
        for path in (tmp_path / engine).glob("events*")
        for event in tf.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert "model/loss" in tags


@pytest.mark.parametrize(
    ("engine", "kind", "towers"),
    [
        ("estimator", estimator.Estimator, None),
        ("towers", estimator.Estimator, 2),
        ("tpu", estimator.tpu.TPUEstimator, None),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_engine_is_an_estimator_of_its_kind(tmp_path, engine, kind, towers):
    seen = []

    def look(features, labels, mode, params):
        seen.append(replicate.num_towers())
        return model_fn(features, labels, mode, params)

    params = with_defaults({"checkpoint_dir": str(tmp_path), "engine": engine}, FLAGS, {})
    params.update(engines.resolve({**params, "num_towers": towers}), num_classes=2)
    # A program of one tower sees how many there are.
    made = engines.make_estimator(look, params, per_tower=True)
    assert type(made) is kind
    made.train(lambda params: tf.data.Dataset.from_tensors((tf.ones([4, 3]), tf.ones([4, 2]))))
    assert set(seen) == {towers or 1}


@pytest.mark.parametrize("engine", ["eager", "estimator", "tpu"])
def test_engines_without_towers_have_no_devices(engine):
    resolved = engines.resolve({**NOWHERE, "engine": engine})
    assert resolved == {"devices": [], "num_towers": None, "use_tpu": False}


def test_the_engine_for_tpus_takes_the_name_of_one():
    assert engines.resolve({**NOWHERE, "engine": "tpu", "tpu": "local"})["use_tpu"]


@pytest.mark.parametrize(
    ("engine", "place", "needed"),
    [
        ("eager", {"devices": ["/cpu:0"]}, "towers"),
        ("estimator", {"num_towers": 2}, "towers"),
        ("tpu", {"num_towers": 2}, "towers"),
        ("towers", {"tpu": "local"}, "tpu"),
    ],
)
def test_a_place_that_the_engine_cannot_use_is_an_error(engine, place, needed):
    [name] = place
    message = (
        f"--{name} is for the engine {needed}, but this run uses the engine {engine}. Leave out "
        f"--{name}, or train with --engine {needed}."
    )
    with pytest.raises(SettingsError, match=message):
        engines.resolve({**NOWHERE, **place, "engine": engine})


def test_a_missing_checkpoint_is_an_error(tmp_path):
    rule = "A network has the weights of a checkpoint, but there is none "
    way_out = r"\. Train it first, with the command `train`\.$"
    with pytest.raises(UserError, match=f"^{rule}in {tmp_path}{way_out}"):
        checkpoints.find(str(tmp_path))
    with pytest.raises(UserError, match=f"^{rule}at {tmp_path}/model{way_out}"):
        checkpoints.find(str(tmp_path), f"{tmp_path}/model")


def test_what_was_stopped_before_its_first_step_begins_anew(tmp_path, capsys):
    def interrupted():
        raise KeyboardInterrupt

    program = Program("examples.some", "", {})
    params = {"checkpoint_dir": str(tmp_path), "max_global_step": 5000}
    assert commands.train(program, params, interrupted) == INTERRUPTED == 130
    text = "Stopped before the first of 5,000 steps. The same command begins again.\n"
    assert capsys.readouterr().err == text


def test_a_checkpoint_of_no_training_is_an_error(tmp_path):
    variable = tf.get_variable("w", [])
    with tf.Session() as session:
        session.run(variable.initializer)
        path = tf.train.Saver([variable]).save(session, f"{tmp_path}/model")
    rule = "A checkpoint must hold the global step of its training, but "
    way_out = r" does not\. Name one that the command `train` wrote\.$"
    with pytest.raises(UserError, match=f"^{rule}{path}{way_out}"):
        checkpoints.step_of(path)


def test_a_program_says_which_settings_may_change(tmp_path):
    before = {"checkpoint_dir": str(tmp_path), "notes": "one", "seed": 0}
    settings_file.save(before)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"\n')
    (tmp_path / "model.ckpt-1.index").touch()
    after = {**before, "notes": "two"}
    settings_file.check_same(after, may_change=["notes"])
    with pytest.raises(SettingsError, match='differ: notes was "one" and is "two"'):
        settings_file.check_same(after)


@pytest.mark.parametrize(
    ("before", "after", "may"), [(4, 6, True), (6, 4, False), (None, 6, False), ("4", "6", False)]
)
def test_a_program_says_which_settings_may_grow(before, after, may, tmp_path):
    given = {"checkpoint_dir": str(tmp_path), "steps": before}
    settings_file.save(given)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-1"\n')
    (tmp_path / "model.ckpt-1.index").touch()
    given["steps"] = after
    if may:
        settings_file.check_same(given, may_grow=["steps"])
        return
    with pytest.raises(SettingsError, match=f"differ: steps was .*{before or 'null'}"):
        settings_file.check_same(given, may_grow=["steps"])


def test_a_program_without_a_command_lists_its_commands(capsys):
    cook = Program("examples.cook", "Cooks.", {"boil": "boil water", "fry": "fry eggs"})
    with pytest.raises(SystemExit, match=str(BAD_INPUT)):
        cook.main([])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "  boil  boil water\n  fry   fry eggs\n" in printed.err


def test_what_is_interrupted_at_its_end_says_so(tmp_path, monkeypatch, capsys):
    def run():
        raise KeyboardInterrupt

    params = {"checkpoint_dir": str(tmp_path), "max_global_step": 3}
    monkeypatch.setattr(checkpoints, "latest_step", lambda directory: 3)
    assert commands.train(None, params, run) == INTERRUPTED
    assert capsys.readouterr().err == (
        "Training is at its end, step 3; evaluation was stopped. The same command evaluates.\n"
    )


@pytest.mark.parametrize("found", ["1.15.5", "2.0.4", "2.11.1"])
def test_a_program_names_the_tensorflow_that_it_needs(found):
    message = f"^examples.cook needs TensorFlow 2.12 or newer, but {found} is installed. "
    with pytest.raises(UserError, match=message + "`replicate` itself works with it"):
        check_tensorflow("examples.cook", found)


@pytest.mark.parametrize("found", ["2.12.0", "2.21.0-rc1", "unknown", None])
def test_a_program_runs_on_newer_ones(found):
    check_tensorflow("examples.cook", found)


def test_a_command_asks_before_it_starts(monkeypatch, capsys):
    monkeypatch.setattr(program_lib, "_installed_tensorflow", lambda: "1.15.5")
    command = types.SimpleNamespace(add_flags=lambda parser: None, main=pytest.fail)
    monkeypatch.setitem(sys.modules, "some.package.commands.cook", command)
    assert Program("some.package", "Cooks.", {"cook": "make a meal"}).main(["cook"]) == BAD_INPUT
    assert "some.package needs TensorFlow 2.12" in capsys.readouterr().err


def test_a_program_goes_by_its_own_name(capsys):
    program = Program("some.package", "Cooks.", {"cook": "make a meal", "eat": "end it"})
    assert program.command_line("cook", "two eggs") == "python -m some.package cook 'two eggs'"
    with pytest.raises(SystemExit):
        program.main(["--help"])
    shown = capsys.readouterr().out
    assert "usage: python -m some.package [-h] command" in shown
    assert "Cooks. Commands:\n\n  cook  make a meal\n  eat   end it\n" in shown
    assert "flags of its own: python -m some.package cook --help" in shown
