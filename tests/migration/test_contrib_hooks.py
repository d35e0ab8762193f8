"""Hooks that stop early, by the names of `tf.contrib.estimator`, stop where those of 1.15.5 do.

They left `tf.contrib` for `tf.estimator.experimental` before 1.15, whose own are asked there: all
steps and arguments below are what these give.
"""

import pathlib
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contrib_proofs
import replicate
import versions
from replicate.migration.contrib import modules

pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore")]

# The accuracy that an evaluation after each step finds, from step 1 on.
FOUND = [0.5, 0.3, 0.4, 0.35, 0.2, 0.2, 0.6, 0.1, 0.7, 0.8, 0.9, 0.9]
EVERY = {"run_every_secs": None, "run_every_steps": 1}
SECONDS = "min_steps run_every_secs run_every_steps"
ARGUMENTS = {
    "InMemoryEvaluatorHook": "estimator input_fn steps hooks name every_n_iter",
    "make_early_stopping_hook": "estimator should_stop_fn run_every_secs run_every_steps",
    "make_stop_at_checkpoint_step_hook": "estimator last_step wait_after_file_check_secs",
    "stop_if_higher_hook": f"estimator metric_name threshold eval_dir {SECONDS}",
    "stop_if_lower_hook": f"estimator metric_name threshold eval_dir {SECONDS}",
    "stop_if_no_decrease_hook": "estimator metric_name max_steps_without_decrease eval_dir "
    + SECONDS,
    "stop_if_no_increase_hook": "estimator metric_name max_steps_without_increase eval_dir "
    + SECONDS,
}
DEFAULTS = {
    "InMemoryEvaluatorHook": ["None", "None", "None", "100"],
    "make_early_stopping_hook": ["60", "None"],
    "make_stop_at_checkpoint_step_hook": ["30"],
}
# The hook, its arguments, and the step at which training ends.
STOPS = [
    ("stop_if_higher_hook", {"threshold": 0.55}, 7),
    ("stop_if_higher_hook", {"threshold": 0.55, "run_every_steps": 4}, 9),
    ("stop_if_higher_hook", {"threshold": 0.45, "min_steps": 4}, 7),
    ("stop_if_higher_hook", {"threshold": 2.0}, 12),
    ("stop_if_lower_hook", {"threshold": 0.25}, 5),
    ("stop_if_lower_hook", {"threshold": 0.25, "min_steps": 7}, 8),
    ("stop_if_no_decrease_hook", {"max_steps_without_decrease": 2}, 4),
    ("stop_if_no_decrease_hook", {"max_steps_without_decrease": 2, "min_steps": 6}, 10),
    ("stop_if_no_increase_hook", {"max_steps_without_increase": 2}, 3),
    ("stop_if_no_increase_hook", {"max_steps_without_increase": 6}, 12),
]


def named(name):
    """Returns a hook; on TensorFlow 1.15, the one that `tf.contrib.estimator` had before."""
    if versions.IS_1:
        return getattr(tf.estimator.experimental, name)
    return modules.lookup(f"estimator.{name}")


def input_fn():
    return tf.data.Dataset.from_tensors({"x": np.ones([2, 1], np.float32)}).repeat()


def late(value):
    """Lets what reads a step before it is counted do so: the hooks leave that to chance."""
    time.sleep(0.05)
    return value


def model_fn(features, labels, mode):
    weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.py_func(late, [features["x"]], tf.float32)) * weight
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Evaluations(tf.train.SessionRunHook):
    """Writes what an evaluation after each step would have found."""

    def __init__(self, directory):
        with tf.Graph().as_default():
            self._writer = tf.summary.FileWriter(directory)

    def begin(self):
        self._step = tf.train.get_global_step()

    def after_run(self, run_context, run_values):
        step = int(run_context.session.run(self._step))
        value = tf.Summary.Value(tag="accuracy", simple_value=FOUND[step - 1])
        self._writer.add_summary(tf.Summary(value=[value]), step)
        self._writer.flush()

    def end(self, session):
        self._writer.close()


def estimator_in(directory, towers, **config):
    devices = ["/cpu:0", "/cpu:1"]
    made = replicate.replicate_model_fn(model_fn, devices=devices)
    config = tf.estimator.RunConfig(session_config=replicate.session_config(devices), **config)
    return tf.estimator.Estimator(made if towers else model_fn, str(directory), config)


def last_step(estimator):
    return int(estimator.get_variable_value("global_step"))


@pytest.mark.parametrize(
    "towers",
    [pytest.param(False, marks=pytest.mark.thorough), True],
    ids=["one device", "towers"],
)
@pytest.mark.parametrize("name,options,want", STOPS, ids=repr)
def test_training_stops_where_it_did(tmp_path, name, options, want, towers):
    estimator = estimator_in(tmp_path, towers)
    directory = str(tmp_path / "found")
    hook = named(name)(estimator, "accuracy", eval_dir=directory, **{**EVERY, **options})
    estimator.train(input_fn, [Evaluations(directory), hook], max_steps=len(FOUND))
    assert last_step(estimator) == want


@pytest.mark.parametrize("every,want", [(1, 3), (3, 7)])
def test_a_function_stops_training_where_it_did(tmp_path, every, want):
    asked = []
    estimator = estimator_in(tmp_path, False)
    hook = named("make_early_stopping_hook")(
        estimator, lambda: asked.append(1) or len(asked) == 3, None, every
    )
    estimator.train(input_fn, [hook], max_steps=12)
    assert (last_step(estimator), len(asked)) == (want, 3)


def test_a_checkpoint_stops_training_where_it_did(tmp_path):
    estimator = estimator_in(tmp_path, False, save_checkpoints_steps=2)
    hook = named("make_stop_at_checkpoint_step_hook")(estimator, 5, 0)
    estimator.train(input_fn, [hook], max_steps=12)
    assert last_step(estimator) == 5


def test_what_is_evaluated_in_memory_is_when_it_was(tmp_path):
    estimator = estimator_in(tmp_path, False)
    hook = named("InMemoryEvaluatorHook")(estimator, input_fn, 1, name="inside", every_n_iter=3)
    estimator.train(input_fn, [hook], max_steps=7)
    steps = [
        event.step
        for path in pathlib.Path(estimator.eval_dir("inside")).glob("*")
        for event in tf.train.summary_iterator(str(path))
        if event.summary.value
    ]
    assert sorted(steps) == [0, 3, 6, 7]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_hooks_take_the_arguments_that_they_took(name):
    arguments, varargs, varkw, defaults = contrib_proofs.signature(named(name))
    assert (arguments, varargs, varkw) == (ARGUMENTS[name].split(), None, None)
    assert defaults == DEFAULTS.get(name, ["None", "0", "60", "None"])
