"""tf_slim's `create_train_op`: it returns the loss, after all updates, and changes gradients.

Its layers keep penalties and updates of batch norm in collections. The gradient of one layer counts
twice, then norms are clipped, each by itself. Equal on shards of the same statistics, for batch
norm's sake.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from contract.models.recipes import create_train_op
from replicate import estimator


def fully_connected(x, units, scope, is_training=None, activation=tf.nn.elu):
    """A layer of slim: weights and penalty, batch norm instead of a bias, if it is said."""
    with tf.variable_scope(scope):
        weights = tf.get_variable(
            "weights",
            [int(x.shape[-1]), units],
            initializer=tf.glorot_uniform_initializer(),
            regularizer=lambda w: 0.01 * tf.nn.l2_loss(w),
        )
        x = x @ weights
        if is_training is None:
            x += tf.get_variable("biases", [units], initializer=tf.zeros_initializer())
        else:
            x = tf.layers.batch_normalization(
                x, momentum=0.8, training=is_training, name="BatchNorm"
            )
        return x if activation is None else activation(x)


def model_fn(features, labels, mode):
    is_training = mode == estimator.ModeKeys.TRAIN
    net = fully_connected(features["x"], 6, "fc1", is_training)
    net = fully_connected(net, 6, "fc2")
    logits = fully_connected(net, 3, "logits", activation=None)
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"logits": logits})
    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = tf.losses.get_total_loss()
    if mode == estimator.ModeKeys.EVAL:
        metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
    train_op = create_train_op(loss, optimizer, 0.5, {"fc1/weights": 2.0})
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    x, labels = data.vectors(total)
    return {"x": data.tiled(x)}, data.tiled(labels)


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, batches=program.TILED)
