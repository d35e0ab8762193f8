"""A dynamic loss scale, by TensorFlow's own optimizer around another, for a layer in float16.

Equal on uneven shards up to float16's rounding of the gradients of rows, which are divided by the
rows of a shard instead of those of the batch.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator
from versions import mixed_precision


def model_fn(features, labels, mode, params):
    with tf.variable_scope("net", initializer=tf.glorot_uniform_initializer()):
        hidden = tf.layers.dense(features, 6, tf.nn.relu, kernel_initializer=None)
        hidden = tf.cast(tf.cast(hidden, tf.float16), tf.float32)
        logits = tf.layers.dense(hidden, 3, kernel_initializer=None)
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"logits": logits})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}
    scale = mixed_precision.DynamicLossScale(initial_loss_scale=2**8, increment_period=2)
    optimizer = replicate.TowerOptimizer(
        mixed_precision.MixedPrecisionLossScaleOptimizer(
            tf.train.MomentumOptimizer(0.1, 0.9), scale
        )
    )
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def rows(total):
    return data.vectors(total)


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, tolerance=program.FLOAT16)
