"""`StallHook` without a cluster, and the signs of life by which tasks know of each other."""

import json
import socket
import threading
import types

import pytest
import tensorflow.compat.v1 as tf

import programs
import replicate
from bodies import matching
from replicate import estimator
from replicate.clusters import heartbeats
from replicate.clusters.heartbeats import Heartbeats, Report
from replicate.faults import stall
from replicate.hooks import StallError, StallHook

IN_STEP = Report(3, True, False)

BAD_ARGUMENTS = {
    "limit": (
        {"config": estimator.RunConfig("dir"), "limit_secs": 0},
        "`limit_secs` must be a number of seconds above 0…but is 0…Pass the time that",
    ),
    "config": (
        {"config": None},
        "Tasks report in the directory of the model, but `config` must be a `RunConfig` with a "
        "`model_dir`, and is …None…Pass `estimator.config`",
    ),
}


@pytest.mark.parametrize(("arguments", "text"), BAD_ARGUMENTS.values(), ids=list(BAD_ARGUMENTS))
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=matching(text)):
        StallHook(**arguments)


class StandsStill(tf.train.SessionRunHook):
    """The limit passes when the first step begins, and no time passes otherwise.

    So a slow machine cannot reach the limit while the session is made or closed, where the hook
    ends the process, which is that of all tests.
    """

    def __init__(self, monkeypatch, limit_secs):
        self._limit = limit_secs
        self._now = 0.0
        monkeypatch.setattr(stall, "time", types.SimpleNamespace(monotonic=lambda: self._now))

    def before_run(self, run_context):
        self._now = 2 * self._limit


def test_a_step_without_an_end(tmp_path, monkeypatch):
    """It waits for a queue that nobody fills."""
    hook = StallHook(estimator.RunConfig(str(tmp_path)), limit_secs=1)
    stands = StandsStill(monkeypatch, limit_secs=1)
    tf.train.get_or_create_global_step()
    never = tf.FIFOQueue(1, tf.float32).dequeue()
    text = (
        "Training stands still: this process has made no step for…of `limit_secs` 1. Check what "
        "it waits for, such as its input, and start it again…If steps take longer, raise `limit"
    )
    with pytest.raises(StallError, match=matching(text)), tf.train.MonitoredSession(
        hooks=[hook, stands]
    ) as session:
        session.run(never)


def test_input_that_cannot_be_interrupted(tmp_path):
    code = """
import sys, threading
import tensorflow.compat.v1 as tf
import replicate

def rows():
    yield 1.0
    threading.Event().wait()

tf.disable_eager_execution()
tf.train.get_or_create_global_step()
row = tf.data.make_one_shot_iterator(tf.data.Dataset.from_generator(rows, tf.float32)).get_next()
hook = replicate.hooks.StallHook(replicate.estimator.RunConfig(sys.argv[1]), limit_secs=1)
with tf.train.MonitoredSession(hooks=[hook]) as session:
    session.run(row)
    session.run(row)
"""
    result = programs.run("-c", code, str(tmp_path))
    assert result.returncode == StallHook.EXIT_STATUS, result.stderr
    assert "this process has made no step for" in result.stderr


def test_a_hook_that_hangs(tmp_path):
    """Python cannot be interrupted there, so that the process ends."""
    code = """
import sys, threading
import tensorflow.compat.v1 as tf
import replicate
from replicate import estimator

class Hangs(tf.train.SessionRunHook):
    def after_run(self, run_context, run_values):
        threading.Event().wait()

tf.disable_eager_execution()
step = tf.train.get_or_create_global_step().assign_add(1)
hook = replicate.hooks.StallHook(estimator.RunConfig(sys.argv[1]), limit_secs=1)
with tf.train.MonitoredSession(hooks=[hook, Hangs()]) as session:
    session.run(step)
"""
    result = programs.run("-c", code, str(tmp_path))
    assert result.returncode == StallHook.EXIT_STATUS, result.stderr
    assert "this process has made no step for" in result.stderr


class Lasts(tf.train.SessionRunHook):
    """A step takes longer than the limit, and until the hook under test has looked twice."""

    def __init__(self, monkeypatch, limit_secs):
        self._limit = limit_secs
        self._now = 0.0
        self._looks = threading.Semaphore(0)
        self.steps = 0
        clock = types.SimpleNamespace(monotonic=lambda: self._now)
        monkeypatch.setattr(stall, "time", clock)
        monkeypatch.setattr(Heartbeats, "look", lambda _: self._looks.release())

    def after_run(self, run_context, run_values):
        self._now += 2 * self._limit
        while self._looks.acquire(blocking=False):
            pass
        for _ in range(2):  # Between two looks, it decides whether training stands still.
            assert self._looks.acquire(timeout=60), "the hook has ended training"
        self.steps += 1


def trains_and_evaluates(model, input_fn, hooks, slow):
    evaluated = estimator.EvalSpec(input_fn, steps=1, hooks=[slow], throttle_secs=0)
    trained = estimator.TrainSpec(input_fn, max_steps=3, hooks=hooks)
    estimator.train_and_evaluate(model, trained, evaluated)


def evaluates_in_memory(model, input_fn, hooks, slow):
    inside = tf.estimator.experimental.InMemoryEvaluatorHook(
        model, input_fn, steps=1, hooks=[slow], every_n_iter=1
    )
    model.train(input_fn, hooks=[inside, *hooks], max_steps=3)  # It also evaluates at the end.


def evaluates_in_a_hook(model, input_fn, hooks, slow):
    class Evaluates(tf.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            model.evaluate(input_fn, steps=1, hooks=[slow])

    model.train(input_fn, hooks=[*hooks, Evaluates()], max_steps=3)


def small_model(model_dir):
    def model_fn(features, labels, mode):
        weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean((weight - features) ** 2)
        train_op = None
        if mode == "train":
            step = tf.train.get_global_step()
            train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = estimator.RunConfig(str(model_dir), save_checkpoints_steps=1)
    return estimator.Estimator(model_fn, config=config)


def ones():
    return tf.data.Dataset.from_tensors(1.0).repeat()


@pytest.mark.parametrize("train", [trains_and_evaluates, evaluates_in_memory, evaluates_in_a_hook])
def test_an_evaluation_inside_training_does_not_count(tmp_path, monkeypatch, train):
    slow = Lasts(monkeypatch, limit_secs=0.1)
    model = small_model(tmp_path)
    train(model, ones, [StallHook(model.config, limit_secs=0.1)], slow)
    assert model.get_variable_value("global_step") == 3
    assert slow.steps >= 2


def test_an_evaluation_that_has_the_hook_is_watched(tmp_path, monkeypatch):
    def model_fn(features, labels, mode):
        del features, labels
        return estimator.EstimatorSpec(mode, loss=tf.FIFOQueue(1, tf.float32, [[]]).dequeue())

    model = small_model(tmp_path)
    model.train(ones, max_steps=1)
    config = estimator.RunConfig(str(tmp_path / "other"))
    stuck = estimator.Estimator(model_fn, config=config)
    hooks = [StallHook(config, limit_secs=1), StandsStill(monkeypatch, limit_secs=1)]
    with pytest.raises(StallError, match="Training stands still"):
        stuck.evaluate(ones, checkpoint_path=model.latest_checkpoint(), hooks=hooks)
    in_the_next_session_no_watch_is_left()


def in_the_next_session_no_watch_is_left():
    """It would end the process: a session that fails does not say so."""
    with tf.Graph().as_default(), tf.train.MonitoredSession() as session:
        session.run_step_fn(lambda step_context: joined_watches())


def joined_watches():
    for thread in threading.enumerate():
        if thread.name == "replicate-stall":
            thread.join(timeout=60)
            assert not thread.is_alive()


def test_a_session_that_fails_is_not_taken_for_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(stall, "_MOST_SECS", 0.1)
    hook = StallHook(estimator.RunConfig(str(tmp_path)), limit_secs=600)
    tf.train.get_or_create_global_step()
    with pytest.raises(ZeroDivisionError), tf.train.MonitoredSession(hooks=[hook]):
        1 / 0  # noqa: B018
    in_the_next_session_no_watch_is_left()


def test_it_ends_with_the_session(tmp_path):
    hook = StallHook(estimator.RunConfig(str(tmp_path)), limit_secs=10)
    step = tf.train.get_or_create_global_step().assign_add(1)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert session.run(step) == 1
    with pytest.raises(ZeroDivisionError), tf.train.MonitoredSession(hooks=[hook]) as session:
        1 / 0  # noqa: B018
    joined_watches()


@pytest.fixture
def tasks(monkeypatch, tmp_path):
    """Returns a function that makes the `Heartbeats` of a task, and what is the time for all."""
    server = socket.create_server(("127.0.0.1", 0))
    cluster = {
        "chief": ["a.test:1"],
        "worker": ["b.test:1", "c.test:1"],
        "ps": [f"127.0.0.1:{server.getsockname()[1]}"],
    }
    time = [100.0]

    def make(job, index):
        task = {"type": job, "index": index}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        return Heartbeats(estimator.RunConfig(str(tmp_path)), lambda: time[0])

    yield make, time, server
    server.close()


def test_signs_of_life(tasks):
    make, time, server = tasks
    chief, worker = make("chief", 0), make("worker", 0)
    time[0] += 10
    worker.beat(IN_STEP)
    chief.look()
    assert chief.silent(5) == {"worker/1": 10}  # It never reported.
    assert chief.reports() == {"worker/0": IN_STEP}
    time[0] += 10
    chief.look()
    assert chief.silent(5) == {"worker/0": 10, "worker/1": 20}
    worker.beat(IN_STEP)
    server.close()
    time[0] += 1
    chief.look()
    assert chief.silent(0.5) == {"worker/1": 21, "ps/0": 1}
    worker.beat(Report(9, False, True))
    chief.look()
    time[0] += 10
    assert set(chief.silent(5)) == {"worker/1", "ps/0"}  # Who is done need not report.


def test_signs_of_life_of_an_earlier_run_are_none(tasks):
    make, time, _ = tasks
    make("worker", 0).beat(Report(1000, False, True))
    chief, worker = make("chief", 0), make("worker", 0)
    time[0] += 10
    chief.look()
    assert chief.silent(5) == {"worker/0": 10, "worker/1": 10}
    assert chief.reports() == {}
    worker.beat(IN_STEP)
    chief.look()
    assert chief.reports() == {"worker/0": IN_STEP}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"steps": 1}', "\x00\xff"])
def test_a_report_that_is_none(tasks, tmp_path, content):
    make, time, _ = tasks
    chief = make("chief", 0)
    directory = tmp_path / "heartbeats"
    directory.mkdir()
    (directory / "worker-0").write_bytes(content.encode("latin-1"))
    time[0] += 10
    chief.look()
    assert set(chief.silent(5)) == {"worker/0", "worker/1"}


def test_an_address_that_is_none():
    assert not heartbeats._takes_connections("nonsense")


def test_a_directory_that_cannot_be_written_is_no_reason_to_end(tmp_path):
    """A file is where the directory should be."""
    (tmp_path / "heartbeats").write_text("")
    hook = StallHook(estimator.RunConfig(str(tmp_path)), limit_secs=60)
    step = tf.train.get_or_create_global_step().assign_add(1)
    with tf.train.MonitoredSession(hooks=[hook]) as session:
        assert session.run(step) == 1


def test_it_is_public():
    assert replicate.hooks.StallHook.EXIT_STATUS == 138
    assert issubclass(replicate.hooks.StallError, RuntimeError)
