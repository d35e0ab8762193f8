"""`ExponentialMovingAverage` beside the optimizer, restored in its variables' place to evaluate.

The idiom of `slim`'s training scripts: `ema.apply` after the gradients, `variables_to_restore` in
the scaffold of the other modes. Equal on uneven shards, in float64.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import program
from replicate import estimator


def model_fn(features, labels, mode, params):
    with tf.variable_scope("model", dtype=tf.float64):
        hidden = tf.layers.dense(features, 5, tf.nn.sigmoid)
        output = tf.layers.dense(hidden, 1)
    ema = tf.train.ExponentialMovingAverage(0.8, tf.train.get_or_create_global_step())
    scaffold = None
    if mode != estimator.ModeKeys.TRAIN:
        scaffold = tf.train.Scaffold(saver=tf.train.Saver(ema.variables_to_restore()))
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"output": output}, scaffold=scaffold)
    loss = tf.reduce_mean(tf.abs(output - labels))
    if mode == estimator.ModeKeys.EVAL:
        return estimator.EstimatorSpec(mode, loss=loss, scaffold=scaffold)

    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.2))
    opt_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    with tf.control_dependencies([opt_op]):
        train_op = ema.apply(tf.trainable_variables())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    x = np.random.RandomState(14).normal(size=(total, 4))
    return x, np.cos(x.sum(axis=1, keepdims=True))


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, tolerance=program.FLOAT64)
