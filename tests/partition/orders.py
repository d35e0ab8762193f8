"""Runs a model on three towers and on one device, and compares fetched values and variables."""

import numpy as np
import tensorflow.compat.v1 as tf

from partition import harness

ModeKeys = tf.estimator.ModeKeys
ROWS = np.random.RandomState(2).randn(7, 4).astype(np.float32)


def ran_of(model_fn, feature, steps=1, mode=ModeKeys.TRAIN):
    """Returns what a model's fetches are after some steps on three towers, and on one device."""
    values = []
    for num_towers in (1, 3):
        with harness.mechanism(), tf.Graph().as_default():
            tf.train.create_global_step()
            rows = tf.placeholder(tf.float32, [None, 4])
            fn = harness.replicated(model_fn, num_towers)
            spec = fn(rows, None, mode=mode)
            with tf.Session(config=harness.session_config(num_towers)) as session:
                session.run(tf.global_variables_initializer())
                fetches = (spec.loss, spec.train_op) if mode == ModeKeys.TRAIN else spec.loss
                for _ in range(steps):
                    made = session.run(fetches, {rows: feature})
                values.append((made, session.run(tf.global_variables())))
    return values


def assert_alike(values):
    for one, other in zip(*map(tf.nest.flatten, values)):
        if one is None:  # The result of an operation.
            continue
        np.testing.assert_allclose(other, one, 1e-6)
