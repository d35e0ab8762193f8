"""The progress of a search on a terminal and elsewhere, and how a search is stopped."""

import contextlib
import fcntl
import io
import itertools
import os
import pty
import re
import signal
import struct
import sys
import termios

import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.search import search_progress
from examples.nas_search.search.search_progress import SearchProgress
from examples.runs import stop_on_signal
from examples.runs.stop_on_signal import StopOnSignal


class Terminal:
    """A pseudo-terminal; `lines` is what a person has seen on it, one entry per redraw."""

    def __init__(self, columns=80):
        self._screen, keyboard = pty.openpty()
        fcntl.ioctl(keyboard, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        self.stream = open(keyboard, "w", encoding="utf-8")  # noqa: SIM115

    @property
    def text(self):
        self.stream.close()
        seen = b""
        with contextlib.suppress(OSError):  # which is how a terminal ends
            while True:
                seen += os.read(self._screen, 4096)
        os.close(self._screen)
        return seen.decode()

    @property
    def lines(self):
        return [line.rstrip() for line in re.split(r"[\r\n]", self.text) if line.strip()]


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A clock that moves by one second whenever it is read, so that every step is shown."""
    seconds = itertools.count()
    monkeypatch.setattr(search_progress.time, "perf_counter", lambda: float(next(seconds)))


def make_graph(*names):
    """Makes a step that counts; the scalars that are named are its number and a constant."""
    step = tf.train.get_or_create_global_step()
    scalars = {
        "reward": tf.cast(step, tf.float32) / 10,
        "validation_accuracy": tf.constant(0.925),
        "estimated_cost": tf.constant(0.3),
        "entropy": tf.constant(7.25),
    }
    with tf.name_scope("search/progress/"):
        read = [tf.identity(scalars[name], name=name) for name in names]
    with tf.control_dependencies(read):
        return tf.assign_add(step, 1)


ALL = ("reward", "validation_accuracy", "estimated_cost", "entropy")


def train(train_op, hooks, steps, directory=None):
    """Runs a step several times, as an Estimator does."""
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=directory, hooks=hooks, save_summaries_steps=None, save_summaries_secs=None
    ) as session:
        for _ in range(steps):
            if not session.should_stop():
                session.run(train_op)


def targets(cost_target):
    return cost_target and {"estimated_cost": cost_target}


def search(steps, total, *names, columns=80, cost_target=None, directory=None):
    """Searches for some steps; returns what was to be seen on a terminal, redraw by redraw."""
    terminal = Terminal(columns)
    with SearchProgress(
        total, targets(cost_target), terminal.stream
    ) as shown, tf.Graph().as_default():
        train(make_graph(*names), [shown], steps, directory)
    lines = terminal.lines
    assert all(len(line) <= columns for line in lines)
    return lines


def test_the_bar_shows_what_matters_in_80_columns():
    lines = search(4, 4, *ALL, cost_target=0.25)
    assert lines[0].startswith("search:   0%|")
    # The mean reward of the steps 0 to 3 is 0.15; 0.3 is 120 % of 0.25.
    assert lines[-1].startswith("search: 100%|")
    assert re.search(r"\| 4/4 \[\d\d:\d\d<\d\d:\d\d, reward 0.150 ", lines[-1])
    assert lines[-1].endswith(" acc 93% cost 120% H 7.2]")


def test_the_bar_has_whole_words_where_there_is_room():
    lines = search(2, 2, *ALL, cost_target=0.25, columns=120)
    assert lines[-1].endswith(
        "reward 0.050, accuracy 92.5%, cost 0.3 (120% of target), entropy 7.2]"
    )


def test_scalars_are_means_over_the_latest_steps():
    # Steps 10 to 29, of 0 to 29: their mean is 19.5.
    assert search(30, 30, "reward")[-1].endswith(", reward 1.950]")


def test_without_a_target_no_cost_is_shown():
    assert search(1, 1, *ALL)[-1].endswith("reward 0.000 acc 93% H 7.2]")


def test_without_scalars_steps_and_times_are_shown():
    last = search(3, 3, cost_target=1.0)[-1]
    assert re.search(r"\| 3/3 \[\d\d:\d\d<\d\d:\d\d\]$", last)


def test_a_resumed_search_continues_where_its_checkpoint_stopped(tmp_path):
    first = search(2, 5, "reward", directory=str(tmp_path))
    assert "| 0/5 [" in first[0]
    assert "| 2/5 [" in first[-1]
    second = search(3, 5, "reward", directory=str(tmp_path))
    assert "| 2/5 [" in second[0]
    assert "| 5/5 [" in second[-1]


def test_the_last_step_is_shown_even_if_nothing_is_due(monkeypatch):
    monkeypatch.setattr(search_progress.time, "perf_counter", lambda: 0.0)
    lines = search(3, 3, "reward")
    assert "| 0/3 [" in lines[0]
    assert "| 3/3 [" in lines[1]
    assert "| 2/3 [" not in "".join(lines)


def test_elsewhere_there_is_a_line_at_each_tenth():
    stream = io.StringIO()
    with SearchProgress(1000, targets(0.25), stream=stream) as shown:
        train(make_graph(*ALL), [shown], 1000)
    lines = stream.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines[:3]] == [f"search: step {n}00 of 1" for n in "123"]
    assert len(lines) == 10
    # The clock moves a second in each step, and one for the line.
    assert lines[4] == (
        "search: step 500 of 1,000, 08:25 so far, 08:25 to go, "
        "reward 48.950, accuracy 92.5%, cost 0.3 (120% of target), entropy 7.2"
    )


def test_the_default_stream_is_where_errors_go(capsys):
    with SearchProgress(1) as shown:
        train(make_graph("reward"), [shown], 1)
    assert "step 1 of 1" in capsys.readouterr().err


def test_the_bar_is_closed_when_the_search_fails():
    terminal = Terminal()
    shown = SearchProgress(5, stream=terminal.stream)
    train_op = make_graph("reward")
    with pytest.raises(RuntimeError, match="failed"), shown:  # noqa: SIM117
        with tf.train.MonitoredTrainingSession(hooks=[shown]) as session:
            session.run(train_op)
            raise RuntimeError("failed")
    assert terminal.text.endswith("\n")
    assert shown.step == 1


def test_a_missing_tqdm_is_an_error_at_construction(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match="pip install"):
        SearchProgress(5)


# Stopping.


class SignalAt(tf.train.SessionRunHook):
    """Sends signals to this process in a step, as Ctrl-C does."""

    def __init__(self, step, *numbers):
        self._left = step
        self._numbers = numbers

    def after_run(self, run_context, run_values):
        self._left -= 1
        if self._left == 0:
            for number in self._numbers:
                os.kill(os.getpid(), number)


@pytest.fixture
def handlers():
    """The signals' handlers before the test, with which a signal raises `KeyboardInterrupt`."""
    before = {number: signal.getsignal(number) for number in stop_on_signal._SIGNALS}
    for number in before:
        signal.signal(number, signal.default_int_handler)
    yield dict.fromkeys(before, signal.default_int_handler)
    for number, handler in before.items():
        signal.signal(number, handler)


def current(handlers):
    return {number: signal.getsignal(number) for number in handlers}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_training_after_the_step_with_a_checkpoint(
    handlers, tmp_path, number, monkeypatch
):
    written = []
    monkeypatch.setattr(stop_on_signal.os, "write", lambda *args: written.append(args))
    with StopOnSignal() as stop:
        train(make_graph(), [SignalAt(3, number), stop], 10, str(tmp_path))
        assert current(handlers) == handlers
    assert stop.is_stopped
    assert tf.train.load_variable(str(tmp_path), "global_step") == 3
    assert written == [(2, stop_on_signal._NOTICE)]


def test_a_second_signal_stops_at_once(handlers):
    with pytest.raises(KeyboardInterrupt), StopOnSignal() as stop:
        train(make_graph(), [SignalAt(3, signal.SIGINT, signal.SIGINT), stop], 10)
    assert stop.is_stopped
    assert current(handlers) == handlers


def test_signals_act_as_ever_before_the_first_step_and_after_the_last(handlers):
    seen = []

    class Watch(tf.train.SessionRunHook):
        def begin(self):
            seen.append(current(handlers))

    with StopOnSignal() as stop:
        train(make_graph(), [stop, Watch()], 2)
        seen.append(current(handlers))
    assert seen == [handlers, handlers]
    assert not stop.is_stopped


def test_signals_act_as_ever_after_an_error(handlers):
    with pytest.raises(RuntimeError, match="failed"), StopOnSignal() as stop:  # noqa: SIM117
        with tf.train.MonitoredTrainingSession(hooks=[stop]):
            assert current(handlers) != handlers
            raise RuntimeError("failed")
    assert current(handlers) == handlers


def test_in_another_thread_the_hook_does_nothing(handlers, monkeypatch):
    monkeypatch.setattr(stop_on_signal.threading, "main_thread", lambda: None)
    with StopOnSignal() as stop:
        stop.after_create_session(None, None)
        assert current(handlers) == handlers
