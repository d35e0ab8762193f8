"""A process that is told to leave saves the step that it is at, and resumes there."""

import signal
import threading
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import matching
from faults import training
from replicate.hooks import PreemptionHook

EARLY = "`exit_status` must tell leaving early from success, an integer from 1 to 255"
NO_STEP = "PreemptionHook saves global steps, but the graph has none"
ONE_SAVER = "PreemptionHook saves with the only saver in `tf.GraphKeys.SAVERS`"
STEPS = 9
STOP = 7  # no step at which checkpoints are due


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Function that gives the losses and the last checkpoint of a run with some settings."""
    done = {}

    def run(**settings):
        key = repr(settings)
        if key not in done:
            directory = tmp_path_factory.mktemp("uninterrupted")
            losses = training.train(directory, STEPS, **settings)
            done[key] = losses, training.read(directory)
        return done[key]

    return run


def preempt(directory, signals=1, **settings):
    """Trains in a process that is told to leave at `STOP`; returns it, and what it said last."""
    hook = settings.pop("hook", {})
    process = training.start(
        "preempted", directory, pause=[STOP], max_steps=STEPS, hook=hook, **settings
    )
    training.wait_for(process, f"step {STOP}")
    process.send_signal(signal.SIGTERM)
    process.stdin.write("\n")
    process.stdin.flush()
    if signals > 1:
        training.wait_for(process, "leaving")
        process.send_signal(signal.SIGTERM)
    return process, process.communicate("\n", timeout=300)


CASES = {
    "towers": {},
    "own_saver": {"own_saver": True},
    "accumulation": {"optimizer": {"accumulate_steps": 2}},
    "one_device": {"devices": ["/cpu:0"]},
    "plain": {"devices": None},
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param("towers", marks=pytest.mark.conformance),
        *(
            pytest.param(case, marks=pytest.mark.thorough)
            for case in ("plain", "own_saver", "one_device")
        ),
    ],
)
def test_training_resumes_at_the_very_step(tmp_path, uninterrupted, case):
    settings = CASES[case]
    process, (output, errors) = preempt(tmp_path, plain=case == "plain", **settings)
    assert process.returncode == 143, errors
    assert output == ""  # no step after the signal
    assert f"step {STOP} is saved in {tmp_path}. Exit status: 143." in errors
    assert training.step_of(tmp_path) == STOP
    losses, checkpoint = uninterrupted(**settings)
    assert training.train(tmp_path, STEPS, **settings) == losses[STOP:]
    training.assert_same(training.read(tmp_path), checkpoint)


@pytest.mark.thorough
def test_a_second_signal_while_it_saves_changes_nothing(tmp_path, uninterrupted):
    hook = {"exit_status": 42}
    process, (_, errors) = preempt(tmp_path, signals=2, hook=hook, ending=True)
    assert process.returncode == 42, errors
    losses, checkpoint = uninterrupted()
    assert training.train(tmp_path, STEPS) == losses[STOP:]
    training.assert_same(training.read(tmp_path), checkpoint)


def test_it_leaves_in_the_midst_of_an_evaluation(tmp_path):
    process = training.start("preempted_in_evaluation", tmp_path, max_steps=STEPS)
    training.wait_for(process, "evaluating")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=300)  # It is never let go on.
    assert process.returncode == 143, errors
    assert training.step_of(tmp_path) == 5


class Signal(tf.train.SessionRunHook):
    """Tells its own process to leave at a step."""

    def __init__(self, step):
        self._left = step

    def after_run(self, run_context, run_values):
        self._left -= 1
        if self._left == 0:
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("stop", [3, pytest.param(5, marks=pytest.mark.thorough)])
def test_batches_that_are_accumulated_are_saved(tmp_path, uninterrupted, stop):
    settings = CASES["accumulation"]
    made = training.make_estimator(tmp_path, save_steps=1, **settings)
    with pytest.raises(SystemExit):
        training.train(tmp_path, STEPS, [Signal(stop), PreemptionHook()], made=made, **settings)
    _, checkpoint = uninterrupted(**settings)
    made.train(lambda: training.dataset(stop), max_steps=STEPS)
    # To the last digits: what towers have accumulated is saved as its sum.
    got = training.read(tmp_path)
    assert {*got} == {*checkpoint}
    for name, value in checkpoint.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def outcome_of(raises):
    class Fail(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            assert signal.getsignal(signal.SIGTERM) != before
            if raises:
                raise ZeroDivisionError

    before = signal.getsignal(signal.SIGTERM)
    return Fail()


@pytest.mark.parametrize("raises", [False, True])
def test_handlers_are_given_back_however_training_ends(tmp_path, raises):
    before = signal.getsignal(signal.SIGTERM)
    hooks = [PreemptionHook(), outcome_of(raises)]
    if raises:
        with pytest.raises(ZeroDivisionError):
            training.train(tmp_path, 2, hooks)
    else:
        training.train(tmp_path, 2, hooks)
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_between_two_steps_makes_no_further_one(tmp_path):
    record = training.Record()
    with pytest.raises(SystemExit):
        training.train(tmp_path, STEPS, [PreemptionHook(), Signal(3)], record)
    assert [step for step, _ in record.losses] == [1, 2, 3]
    assert training.step_of(tmp_path) == 3


class Count(tf.train.SessionRunHook):
    """Counts how often it is ended."""

    ends = 0

    def end(self, session):
        self.ends += 1


class SignalsInAnotherGraph(tf.train.SessionRunHook):
    """Tells its own process to leave, and again while it does, where another graph is built."""

    def after_run(self, run_context, run_values):
        with tf.Graph().as_default():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                signal.raise_signal(signal.SIGTERM)


def test_a_second_signal_while_it_leaves_another_graph_changes_nothing(tmp_path):
    count = Count()
    with pytest.raises(SystemExit):
        training.train(tmp_path, STEPS, [PreemptionHook(ending=[count]), SignalsInAnotherGraph()])
    assert training.step_of(tmp_path) == 1
    assert count.ends == 1


class LosesServer(tf.train.SessionRunHook):
    """Tells its own process to leave in its first step, in which a server is lost."""

    sessions = 0

    def after_create_session(self, session, coord):
        self.sessions += 1

    def after_run(self, run_context, run_values):
        if self.sessions == 1:
            signal.raise_signal(signal.SIGTERM)
            raise tf.errors.AbortedError(None, None, "A server is lost.")


def test_a_signal_outlives_the_session_that_it_came_in(tmp_path):
    loses, record = LosesServer(), training.Record()
    with pytest.raises(SystemExit):
        training.train(tmp_path, STEPS, [loses, PreemptionHook()], record)
    assert loses.sessions == 2
    assert training.step_of(tmp_path) == 0  # what the second session restored


def test_a_worker_leaves_the_saving_to_the_chief(tmp_path):
    config = types.SimpleNamespace(model_dir=str(tmp_path), is_chief=False)
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step().assign_add(1)
        hooks = [Signal(2), PreemptionHook(config)]
        with tf.train.MonitoredSession(hooks=hooks) as session, pytest.raises(SystemExit) as left:
            while True:
                last = session.run(step)
    assert (last, left.value.code) == (1, 143)
    assert not list(tmp_path.iterdir())


def test_threads_that_get_no_signals_are_warned(tmp_path, warnings):
    thread = threading.Thread(target=training.train, args=(tmp_path, 2, [PreemptionHook()]))
    before = signal.getsignal(signal.SIGTERM)
    thread.start()
    thread.join()
    assert any("handles signals in the main thread only" in warning for warning in warnings())
    assert training.step_of(tmp_path) == 2
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("status", [0, 256, True, None])
def test_an_exit_status_of_success_is_an_error(status):
    with pytest.raises(ValueError, match=matching(f"{EARLY}…but is {status!r}. Pass e.g.")):
        PreemptionHook(exit_status=status)


def test_what_cannot_be_saved_is_an_error(tmp_path):
    hook = PreemptionHook()
    with tf.Graph().as_default():
        with pytest.raises(RuntimeError, match=NO_STEP):
            hook.begin()
        tf.train.get_or_create_global_step()
        with pytest.raises(RuntimeError, match=r"Pass the Estimator's `RunConfig`"):
            hook.begin()
        hook = PreemptionHook(replicate.estimator.RunConfig(model_dir=str(tmp_path)))
        hook.begin()
        with pytest.raises(RuntimeError, match=matching(f"{ONE_SAVER}…but there are 0. Train")):
            hook.after_create_session(None, None)
