"""Training for long, and often: memory stays flat, and no thread and no file is left behind.

Each run is a process of its own, `long_training.py`. Its memory, threads and files are compared
with those after warm-up, in which allocators, pools of threads and caches of TensorFlow fill. A
plain Estimator, run in the same way, shows how much of it is TensorFlow's.
"""

import json

import pytest

import programs
from soak import long_training

pytestmark = pytest.mark.nightly

STEPS, ROUNDS = 50_000, 50
MORE = 1.01  # times as much memory as after warm-up is flat


def run(directory, *args):
    """Returns what the process held, a list by moment."""
    done = programs.run("tests/soak/long_training.py", *map(str, args), str(directory))
    assert done.returncode == 0, done.stderr[-5_000:]
    looks = [json.loads(line) for line in done.stdout.splitlines()]
    sizes = [round(look["megabytes"], 1) for look in looks]
    print(f"{args}: {sizes[0]} MB at the start, then {sizes[1:]}")
    return looks


def growth(looks, warm_up):
    """Returns how many times as much memory there is at most after `warm_up` looks as in them."""
    sizes = [look["megabytes"] for look in looks[1:]]
    return max(sizes[warm_up:]) / max(sizes[:warm_up])


def check_nothing_left(looks, warm_up):
    """Asserts that threads and files are those that were there after warm-up."""
    for look in looks[warm_up + 1 :]:
        assert look["tasks"] <= looks[warm_up]["tasks"]
        assert look["threads"] == looks[warm_up]["threads"]
        assert len(look["files"]) == len(looks[warm_up]["files"])


def test_many_steps_take_no_more_memory(tmp_path):
    # The last look is when training has ended, which a checkpoint and its threads take part in.
    *within, last = run(tmp_path, "towers", "steps", STEPS)
    assert len(within) >= long_training.LOOKS
    check_nothing_left(within, warm_up=3)
    assert growth(within, warm_up=3) <= MORE
    assert last["graphs"] == 0
    assert not [name for name in last["threads"] if name.startswith(("tower_", "replicate"))]


def test_many_rounds_of_training_and_evaluating_leave_nothing(tmp_path):
    looks = run(tmp_path / "towers", "towers", "rounds", ROUNDS)
    plain = run(tmp_path / "plain", "plain", "rounds", ROUNDS)
    assert len(looks) == len(plain) == 1 + ROUNDS
    check_nothing_left(looks, warm_up=10)
    for look in looks[1:]:
        assert look["graphs"] == 0
        assert look["threads"] == plain[-1]["threads"]
        assert len(look["files"]) == len(plain[-1]["files"])
    # A plain Estimator may grow; towers add no more than that to it.
    assert growth(looks, warm_up=10) <= MORE * max(1, growth(plain, warm_up=10))
