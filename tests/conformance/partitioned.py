"""Partitioned variables of both kinds, an embedding over the parts among them.

Equal on uneven shards, in float64; the checkpoint holds whole tensors.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import program
from replicate import estimator


def model_fn(features, labels, mode, params):
    min_max = tf.min_max_variable_partitioner(max_partitions=3, min_slice_size=64)
    with tf.variable_scope("input", partitioner=min_max, dtype=tf.float64):
        table = tf.get_variable("table", [20, 2])
        embedded = tf.nn.embedding_lookup(table, features["ids"], partition_strategy="div")
    net = tf.concat([features["x"], tf.reduce_sum(embedded, axis=1)], axis=1)
    with tf.variable_scope("net", partitioner=tf.fixed_size_partitioner(2), dtype=tf.float64):
        kernel = tf.get_variable("kernel", [6, 5], regularizer=tf.keras.regularizers.l2(0.01))
        net = tf.tanh(tf.matmul(net, kernel))
        net = tf.layers.dense(net, 4, tf.tanh, name="dense")
    with tf.variable_scope("output", partitioner=tf.fixed_size_partitioner(2, axis=1)):
        weights = tf.get_variable("weights", [4, 2], tf.float64)
        output = tf.reduce_sum(net @ tf.convert_to_tensor(weights), axis=1)
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"output": output})

    loss = tf.reduce_mean((output - labels) ** 2)
    loss += tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
    optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
    return estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, global_step=tf.train.get_global_step()),
        eval_metric_ops={"error": tf.metrics.mean_relative_error(output, labels, labels)},
    )


def rows(total):
    random = np.random.RandomState(12)
    ids = random.randint(0, 20, size=(total, 2))
    x = random.normal(size=(total, 4))
    return {"x": x, "ids": ids}, 1.5 + np.sin(x.sum(axis=1) + ids[:, 0])


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, tolerance=program.FLOAT64)
