"""Experts picked by data: many a tower has no row for half of the variables.

Equal on uneven shards, in float64. Rows come sorted by task, as in files of several sources, so
that a shard often has one task only. `tf.cond` skips the experts that no row asks for; a table is
looked up in few of its rows; one variable is in no tower's loss at all.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import program
from replicate import estimator

TASKS = 3


def expert(x, is_asked, name):
    """The expert's answer to all rows, or zeros if none of them asks for it."""
    with tf.variable_scope(name, dtype=tf.float64):
        # TensorFlow's branches may not make variables.
        hidden, output = tf.get_variable("hidden", [4, 3]), tf.get_variable("output", [3, 1])
    return tf.cond(
        tf.reduce_any(is_asked),
        lambda: tf.tanh(x @ hidden) @ output,
        lambda: tf.zeros_like(x[:, :1]),
    )


def model_fn(features, labels, mode, params):
    x, task = features["x"], features["task"]
    table = tf.get_variable("table", [40, 4], tf.float64)
    tf.get_variable("unused", [2], tf.float64)
    x += tf.nn.embedding_lookup(table, features["id"])
    output = tf.zeros_like(x[:, :1])
    for number in range(TASKS):
        is_asked = tf.equal(task, number)
        answer = expert(x, is_asked, f"expert_{number}")
        output += tf.where(is_asked[:, None], answer, tf.zeros_like(answer))
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"output": output, "task": task})

    loss = tf.reduce_mean((output - labels) ** 2)
    metrics = {
        f"task_{number}/mse": tf.metrics.mean_squared_error(
            labels, output, weights=tf.equal(task, number)[:, None]
        )
        for number in range(TASKS)
    }
    optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def rows(total):
    random = np.random.RandomState(15)
    task = np.sort(random.randint(0, TASKS, size=total))
    x = random.normal(size=(total, 4))
    labels = np.sin(x.sum(axis=1) + task)[:, None]
    return {"x": x, "task": task, "id": random.randint(0, 40, size=total)}, labels


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, tolerance=program.FLOAT64)
