"""Progress messages of a benchmark, with a clock that the tests set."""

import io
import types

import pytest

from replicate.bench import models, plan
from replicate.bench.progress import Progress, duration

CASE = models.CASES["mlp"]
TWO = ("/device:CPU:0", "/device:CPU:1")
ALONE = plan.Setup(plan.ONE, "single", TWO[:1], CASE._replace(global_batch=8))
TOWERS = plan.Setup("replicate", "replicate", TWO, CASE._replace(global_batch=16, towers=2))
ARGS = types.SimpleNamespace(rounds=2, steps=4, warmup=2)
RUNS = plan.runs("mlp", [ALONE, TOWERS], ARGS)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def made(stream, monkeypatch, seconds=10.0):
    monkeypatch.setattr(plan, "seconds", lambda run: seconds)
    clock = Clock()
    return Progress(RUNS, stream, clock), clock


def finish(progress, clock, seconds):
    progress.begin()
    clock.now += seconds
    progress.end()


def test_what_is_planned_is_interleaved_and_ends_with_what_losses_need():
    whole = ALONE._replace(case=ALONE.case._replace(global_batch=16))
    planned = [
        plan.Run("mlp", ALONE, 2, 4, 1),
        plan.Run("mlp", TOWERS, 2, 4, 1),
        plan.Run("mlp", ALONE, 2, 4, 2),
        plan.Run("mlp", TOWERS, 2, 4, 2),
        plan.Run("mlp", whole, 1, 5, None),
    ]
    assert planned == RUNS
    # With batch norm, one device has other losses.
    assert len(plan.runs("cnn", [ALONE, TOWERS], ARGS)) == 4
    # One device has trained on the whole batch already.
    assert len(plan.runs("mlp", [whole, TOWERS], ARGS)) == 4


def test_time_that_is_left_is_corrected_as_runs_end(monkeypatch):
    progress, clock = made(io.StringIO(), monkeypatch)
    assert progress.left() == 50
    progress.begin()
    clock.now += 4
    assert progress.left() == 46  # Without the seconds that passed.
    clock.now += 16
    assert progress.left() == 40  # Longer than expected: it may end any time.
    progress.end()
    # It took 20 s, twice what was expected: so will its second round, and so may the others.
    assert progress.left() == 4 * 20
    finish(progress, clock, 40)
    # Second rounds take what the first took; the one that is unknown, 3 times what was expected.
    assert progress.left() == 20 + 40 + 30
    finish(progress, clock, 10)
    finish(progress, clock, 20)
    assert progress.left() == pytest.approx(10 * (20 + 40 + 10 + 20) / 40)
    finish(progress, clock, 7)
    assert progress.left() == 0 and progress.done == progress.count == 5


def test_what_took_long_and_what_did_not_is_told_apart(monkeypatch):
    progress, clock = made(io.StringIO(), monkeypatch)
    for seconds in (20, 40, 30):
        finish(progress, clock, seconds)
    assert progress.left() == 40 + 10 * 90 / 30  # Not the mean of one device, 25.


def test_on_a_terminal_one_line_is_drawn_anew(monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", "70")
    progress, clock = made(stream, monkeypatch)
    progress.begin()
    clock.now += 7
    progress.tick()
    first, second = stream.getvalue().split("\r\x1b[K")[1:]
    assert first == "[1/5] mlp, round 1: one device; about 50 s left"
    assert second == "[1/5] mlp, round 1: one device; about 43 s left"
    progress.end()
    progress.say("a row")
    assert stream.getvalue().endswith("43 s left\r\x1b[Ka row\n")
    progress.begin()
    assert stream.getvalue().endswith("[2/5] mlp, round 1: replicate, 2 devices; about 28 s left")
    progress.clear()
    assert stream.getvalue().endswith("left\r\x1b[K")


def test_a_line_is_not_longer_than_the_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setenv("COLUMNS", "20")
    progress, _ = made(stream, monkeypatch)
    progress.begin()
    assert stream.getvalue() == "\r\x1b[K[1/5] mlp, round 1:"


def test_without_a_terminal_there_is_a_line_every_half_minute(monkeypatch):
    stream = io.StringIO()
    progress, clock = made(stream, monkeypatch, seconds=100.0)
    progress.begin()
    for _ in range(100):
        clock.now += 1
        progress.tick()
    progress.end()
    progress.begin()
    clock.now += 20
    progress.tick()
    assert stream.getvalue().splitlines() == [
        "[1/5] mlp, round 1: one device; about 8 min left",
        "[1/5] mlp, round 1: one device; about 7 min left",
        "[1/5] mlp, round 1: one device; about 7 min left",
        "[2/5] mlp, round 1: replicate, 2 devices; about 6 min left",
    ]


def test_the_last_run_is_for_its_losses(monkeypatch):
    stream = Terminal()
    progress, clock = made(stream, monkeypatch)
    for _ in range(4):
        finish(progress, clock, 10)
    progress.begin()
    assert stream.getvalue().endswith("[5/5] mlp, for its losses: one device; about 10 s left")


@pytest.mark.parametrize("kind", ["CPU", "GPU"])
def test_how_long_it_takes_is_said_before_it_begins(kind):
    stream = io.StringIO()
    setups = [
        way._replace(devices=tuple(name.replace("CPU", kind) for name in way.devices))
        for way in (ALONE, TOWERS)
    ]
    progress = Progress(plan.runs("mlp", setups, ARGS), stream, Clock())
    progress.announce()
    (line,) = stream.getvalue().splitlines()
    assert line.startswith(
        f"5 runs, each in a separate process: about {duration(progress.left())} "
    )
    assert ("no GPU was measured" in line) == (kind == "GPU")
    assert "Ctrl-C" in line


def test_more_work_is_expected_to_take_longer():
    run = RUNS[1]
    longer = [
        run._replace(steps=4000),
        run._replace(setup=run.setup._replace(case=run.setup.case._replace(global_batch=10**6))),
        run._replace(setup=run.setup._replace(devices=TWO * 4)),
    ]
    assert all(plan.seconds(other) > plan.seconds(run) > 0 for other in longer)
    assert all(plan.seconds(run._replace(model=model)) > 0 for model in models.CASES)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89.4, "89 s"), (90, "2 min"), (3600, "60 min"), (5400, "1.5 h")],
)
def test_durations_are_text(seconds, text):
    assert duration(seconds) == text
