"""A step that is cancelled because a task was lost is repeated; others end training."""

import json
import types

import pytest
import tensorflow.compat.v1 as tf

import replicate
from replicate import estimator
from replicate.faults.cancelled_steps import CancelledStepHook

# Texts of TensorFlow 2.15 and 1.15 after a parameter server was started again.
LOST = (
    "From /job:ps/replica:0/task:0:\nRecvAsync is cancelled.\n\t [[{{node Merge}}]]\n"
    "ABORTED: From /job:ps/replica:0/task:1:\nThe same RunGraph request was received twice.",
    "2 root error(s) found.\n  (0) Cancelled: RecvAsync is cancelled.\n"
    "  (1) Unavailable: Socket closed",
)
RULE = "A task that took part in the step was lost."


class Fails(tf.train.SessionRunHook):
    """Lets step 3 fail once."""

    def __init__(self, message):
        self._message = message
        self.sessions = 0

    def after_create_session(self, session, coord):
        self.sessions += 1
        run, self._steps = session.run, 0

        def run_or_fail(*args, **kwargs):
            self._steps += 1
            if self.sessions == 1 and self._steps == 3:
                raise tf.errors.CancelledError(None, None, self._message)
            return run(*args, **kwargs)

        session.run = run_or_fail


def train(fails):
    """Counts to 5; returns the number."""
    step = tf.train.get_or_create_global_step()
    more = tf.assign_add(step, 1)
    hooks = [fails, CancelledStepHook(), tf.train.StopAtStepHook(last_step=5)]
    with tf.train.MonitoredSession(hooks=hooks) as session:
        while not session.should_stop():
            last = session.run(more)
    return last


@pytest.mark.parametrize("message", LOST)
def test_a_step_that_was_cancelled_by_a_lost_task_is_made_in_a_new_session(message):
    fails = Fails(message)
    assert train(fails) == 5
    assert fails.sessions == 2


@pytest.mark.parametrize("message", LOST)
def test_the_error_says_what_was_lost(message):
    def run():
        raise tf.errors.CancelledError(None, None, message)

    session = types.SimpleNamespace(run=run)
    CancelledStepHook().after_create_session(session, None)
    with pytest.raises(tf.errors.AbortedError) as raised:
        session.run()
    assert raised.value.message == f"{RULE} {message}"


def test_a_step_that_was_cancelled_otherwise_ends_training():
    with pytest.raises(tf.errors.CancelledError, match="Session was closed"):
        train(Fails("Session was closed."))


@pytest.mark.parametrize("cluster", [False, True])
def test_tasks_of_a_cluster_have_it(tmp_path, monkeypatch, cluster):
    if cluster:
        hosts = {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}
        monkeypatch.setenv("TF_CONFIG", _task(hosts, "worker"))
    devices = ["/cpu:0", "/cpu:1"]
    sessions = replicate.session_config(devices)
    config = estimator.RunConfig(str(tmp_path), session_config=sessions)

    def model_fn(features, labels, mode):
        weight = tf.get_variable("weight", [])
        loss = tf.losses.mean_squared_error(labels, features["x"] * weight)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    replicated = replicate.replicate_model_fn(model_fn, devices=devices)
    tf.train.create_global_step()
    features, labels = {"x": tf.ones([4])}, tf.ones([4])
    spec = replicated(features, labels, mode=estimator.ModeKeys.TRAIN, config=config)
    assert [type(hook) for hook in spec.training_hooks].count(CancelledStepHook) == cluster


def _task(hosts, job):
    return json.dumps({"cluster": hosts, "task": {"type": job, "index": 0}})
