"""Batch norm's moving statistics, updated by an operation that a hook runs, as in a GAN.

Here it is a running mean alone, made as batch norm makes it. Equal on uneven shards: it is linear
in rows, and training does not read it.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import gan_hooks, program
from replicate import estimator


def running_mean(x, training):
    """Returns the running mean of `x`, and the operation that updates it."""
    mean = tf.get_variable(
        "running_mean",
        x.shape[1:],
        initializer=tf.zeros_initializer(),
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.MEAN,
    )
    if not training:
        return mean, tf.no_op()
    return mean, mean.assign_sub(0.5 * (mean - tf.reduce_mean(x, axis=0)))


def model_fn(features, labels, mode, params):
    training = mode == estimator.ModeKeys.TRAIN
    noise = features["noise"]
    mean, update = running_mean(noise, training)
    points = tf.layers.dense(noise if training else noise - mean, 2)
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"points": points})
    loss = tf.losses.mean_squared_error(labels, points)
    if mode == estimator.ModeKeys.EVAL:
        return estimator.EstimatorSpec(mode, loss=loss)

    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
    with tf.control_dependencies([update]):
        points_op = optimizer.minimize(loss)
    return estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=tf.train.get_global_step().assign_add(1),
        training_hooks=[gan_hooks.RunTrainOpsHook(points_op, 1)],
    )


PROGRAM = program.Program(program.as_model_fn(model_fn), gan_hooks.rows, drive=gan_hooks.drive)
