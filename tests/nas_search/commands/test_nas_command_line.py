"""The door to the example, and `search` behind it, with a small model for a super-network."""

import json
import logging
import os
import re
import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import programs
import replicate
from examples.nas_search.commands import PROGRAM
from examples.nas_search.commands import search as search_command
from examples.nas_search.search import search_flags, search_loop, search_settings
from examples.nas_search.training import train_flags
from examples.runs.errors import UserError
from replicate import estimator

# The door.


def test_help_and_bad_arguments_need_no_tensorflow():
    # In a process of its own: in this one, TensorFlow is imported.
    code = f"""
import sys
from examples.nas_search.commands import PROGRAM
calls = [["--help"], [], ["nothing"]]
for command in {list(PROGRAM.commands)}:
    calls += [[command, "--help"], [command, "--nothing"]]
calls += [["search", "--checkpoint_dir=x", "--epochs=0"]]
for call in calls:
    try:
        PROGRAM.main(call)
    except SystemExit as exit:
        assert exit.code == (0 if "--help" in call else 2), (call, exit.code)
    else:
        raise AssertionError(call)
    assert "tensorflow" not in sys.modules, call
"""
    result = programs.run("-c", code)
    assert result.returncode == 0, result.stderr
    assert "--rl_delay_steps_fraction FLOAT" in result.stdout


def test_the_door_lists_its_commands(capsys):
    with pytest.raises(SystemExit):
        PROGRAM.main(["--help"])
    shown = capsys.readouterr().out
    assert "usage: python -m examples.nas_search [-h] command" in shown
    for name, what in PROGRAM.commands.items():
        assert re.search(rf"^  {name} +{re.escape(what)}$", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "Each command has flags of its own"),
        (["serach"], "invalid choice: 'serach' (choose from 'search', 'analyze', 'rank'"),
        (["search"], "arguments are required: --checkpoint_dir"),
        (["search", "--epochs=many"], "argument --epochs: must be a whole number, but is 'many'"),
        (["search", "--model_momentum=a"], "argument --model_momentum: must be a number, but is"),
        (
            ["search", "--test_fraction=2"],
            "argument --test_fraction: must be in [0, 1], but is 2.0",
        ),
        (
            ["search", "--preset=tiny"],
            "argument --preset: must be one of digits, mnist5k, pulses, cifar10, imagenet, but is",
        ),
        (["search", "--enable_cost_model=?"], "--enable_cost_model: must be true or false, but is"),
        (["search", "--checkpoint_dir=x", "--epoch=1"], "unrecognized arguments: --epoch=1"),
    ],
)
def test_bad_arguments_are_told(capsys, argv, message):
    with pytest.raises(SystemExit) as raised:
        PROGRAM.main(argv)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


def raising(error):
    def main(args):
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UserError("Pass more."), 2, "python -m examples.nas_search search: error: Pass more.\n"),
        (KeyboardInterrupt(), 130, "\nInterrupted.\n"),
    ],
)
def test_what_the_user_can_mend_has_no_traceback(capsys, monkeypatch, error, status, message):
    monkeypatch.setattr(search_command, "main", raising(error))
    assert PROGRAM.main(["search", "--checkpoint_dir=x"]) == status
    assert capsys.readouterr().err == message


def test_other_errors_are_not_hidden(monkeypatch):
    monkeypatch.setattr(search_command, "main", raising(ValueError("a bug")))
    with pytest.raises(ValueError, match="a bug"):
        PROGRAM.main(["search", "--checkpoint_dir=x"])


@pytest.mark.parametrize(
    ("message", "is_shown"),
    [
        ("Estimator.__init__ (...) is deprecated and will be removed in a future version.", False),
        ("The name tf.estimator.tpu.TPUConfig is deprecated. Please use tf.compat.v1.", False),
        ("The cost model is off.", True),
    ],
)
def test_deprecations_of_estimators_are_kept_from_the_log(monkeypatch, message, is_shown):
    monkeypatch.setattr(search_command, "main", lambda args: 0)
    PROGRAM.main(["search", "--checkpoint_dir=x"])
    record = logging.LogRecord("tensorflow", logging.WARNING, "file", 1, message, None, None)
    assert bool(logging.getLogger("tensorflow").filter(record)) == is_shown


@pytest.fixture
def given(monkeypatch):
    """Returns what `search` would get of a command line."""
    caught = {}
    monkeypatch.setattr(search_command, "main", lambda args: caught.update(vars(args)))

    def parse(*argv):
        caught.clear()
        PROGRAM.main(["search", "--checkpoint_dir=x", *argv])
        del caught["checkpoint_dir"]
        return dict(caught)

    return parse


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (["--enable_cost_model"], True),
        (["--enable_cost_model=true"], True),
        (["--enable_cost_model=false"], False),
        (["--enable_cost_model", "False"], False),
        (["--noenable_cost_model"], False),
    ],
)
def test_flags_of_truth(given, argv, value):
    assert given(*argv) == {"enable_cost_model": value}


def test_only_what_is_given_is_passed_on(given):
    assert given() == {}
    assert given("--epochs", "3", "--devices", "/cpu:0", "/cpu:1", "--seed=5") == {
        "epochs": 3,
        "devices": ["/cpu:0", "/cpu:1"],
        "seed": 5,
    }


@pytest.mark.parametrize("flags", [search_flags, train_flags])
def test_every_flag_is_known_to_its_presets_and_explained(flags):
    names = [flag.name for flag in flags.FLAGS]
    assert len(set(names)) == len(names)
    for preset in flags.PRESETS.values():
        assert set(preset) <= set(names)
    assert all(flag.help for flag in flags.FLAGS)


# Searching.


def model_fn(features, labels, mode, params):
    """A model whose weights tell which batches it saw, and in which order."""
    weights = [
        tf.get_variable(part, initializer=tf.zeros(features[part].shape[1:]))
        for part in ("train", "validation")
    ]
    tf.get_variable("noise", [3], initializer=tf.random_uniform_initializer(), trainable=False)
    loss = tf.add_n(
        [
            tf.reduce_sum(weight * tf.reduce_mean(features[part], axis=0))
            + tf.reduce_mean(labels[part])
            for part, weight in zip(("train", "validation"), weights)
        ]
    )
    if params["model_momentum"] == 0.0:
        loss /= 0.0
    optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.1, 0.5))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    with tf.name_scope("search/progress/"):
        tf.identity(replicate.cross_tower_mean(loss), name="reward")
    tf.summary.scalar("rlcontroller/reward", loss)
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs `search` for 6 steps on two towers; returns its exit status and what it printed."""
    monkeypatch.setattr(search_loop.model_fn, "model_fn", model_fn)

    def run_search(*argv, name="run"):
        flags = ["--max_global_step=6", "--num_towers=2", "--train_batch_size=20"]
        directory = f"--checkpoint_dir={tmp_path / name}"
        status = PROGRAM.main(["search", directory, *flags, *argv])
        return status, capsys.readouterr()

    return run_search


def weights(directory):
    names = ("train", "validation", "noise", "train/Momentum", "global_step")
    return [tf.train.load_variable(str(directory), name) for name in names]


def stop_at(step, monkeypatch):
    """Has Ctrl-C pressed once, after a step."""

    class Stop(search_loop.StopOnSignal):
        left = step

        def after_run(self, run_context, run_values):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGINT)
            super().after_run(run_context, run_values)

    monkeypatch.setattr(search_loop, "StopOnSignal", Stop)


def test_a_search_leaves_a_full_record(run, tmp_path):
    status, shown = run()
    assert status == 0
    directory = tmp_path / "run"
    assert shown.out == (
        "Searching digits_search on 2 towers, 6 steps. The first takes a while.\n"
        "Cost: madds, million MAdds; target 0.0111.\n"
        "At its end, step 6. What it found:\n"
        f"    python -m examples.nas_search analyze --dirname {directory}\n"
    )
    assert "search: step 6 of 6" in shown.err
    params = json.loads((directory / "params.json").read_text())
    expected = search_settings.resolve(
        checkpoint_dir=str(directory), max_global_step=6, num_towers=2, train_batch_size=20
    )
    assert params == expected
    assert weights(directory)[-1] == 6
    assert list(directory.glob("events.out.tfevents.*"))


def test_the_same_seed_gives_the_same_search(run, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run(f"--seed={seed}", name=name)[0] == 0
    a, b, c = (weights(tmp_path / name) for name in "abc")
    for one, other in zip(a, b):
        np.testing.assert_array_equal(one, other)
    for one, other in list(zip(a, c))[:3]:
        assert not np.array_equal(one, other)


def test_a_stopped_search_goes_on_as_if_it_had_not_stopped(run, tmp_path, monkeypatch):
    assert run(name="uninterrupted")[0] == 0
    with monkeypatch.context() as stopping:
        stop_at(2, stopping)
        status, shown = run()
    directory = tmp_path / "run"
    assert status == 130
    assert shown.out.splitlines()[2:] == [
        "Stopped and saved at step 2 of 6. Go on with",
        f"    python -m examples.nas_search search --checkpoint_dir={directory} "
        "--max_global_step=6 --num_towers=2 --train_batch_size=20",
    ]
    assert weights(directory)[-1] == 2
    status, shown = run()
    assert status == 0
    assert shown.out.startswith("Searching digits_search on 2 towers, from step 2 to 6. ")
    for one, other in zip(weights(directory), weights(tmp_path / "uninterrupted")):
        np.testing.assert_array_equal(one, other)


def test_a_stop_in_the_last_step_is_the_end(run, monkeypatch):
    stop_at(6, monkeypatch)
    assert run()[0] == 0


def test_a_search_that_is_at_its_end_stays_as_it_is(run, tmp_path):
    run()
    before = sorted(path.name for path in (tmp_path / "run").iterdir())
    status, shown = run()
    assert status == 0
    assert shown.out.startswith("At its end, step 6. What it found:")
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == before


def test_changed_settings_are_refused_and_left_unchanged(run, tmp_path):
    run()
    before = (tmp_path / "run" / "params.json").read_text()
    status, shown = run("--seed=7", "--rl_reward_function=mnas")
    assert status == 2
    assert shown.out == ""
    assert 'rl_reward_function was "abs" and is "mnas"; seed was 0 and is 7. Pass' in shown.err
    assert (tmp_path / "run" / "params.json").read_text() == before


def test_a_loss_that_is_no_number_is_explained(run):
    status, shown = run("--model_momentum=0")
    assert status == 2
    assert re.search(
        r"error: The loss is no longer a number, near step \d\. Lower --model", shown.err
    )


def test_resume_commands_are_quoted_for_the_shell():
    command = PROGRAM.command_line("search", "--dataset_dir=my images")
    assert command == "python -m examples.nas_search search '--dataset_dir=my images'"


@pytest.mark.slow
def test_bad_settings_end_the_program(tmp_path):
    result = programs.run(
        "-m", "examples.nas_search", "search", f"--checkpoint_dir={tmp_path}/run", "--ssd=nothing"
    )
    assert result.returncode == 2
    assert (
        "\npython -m examples.nas_search search: error: --ssd: `ssd` must" in "\n" + result.stderr
    )
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "run").exists()
