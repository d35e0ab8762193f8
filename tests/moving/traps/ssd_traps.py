"""The SSD program with what moving it takes; for `scan`, and not run.

A comment says after `trap:`, in words, which rules are to find its line, and after `no trap:` why
none is. Changes that a codebase needs once, such as `compat install`, have no mark.
"""

import tensorflow as tf  # trap: tensorflow 1
import tensorflow.contrib.slim as slim

FLAGS = tf.app.flags.FLAGS


def model_fn(features, labels, mode):
    with slim.arg_scope([slim.conv2d], padding="SAME"):  # trap: contrib package
        net = slim.conv2d(features, 8, [3, 3])  # trap: contrib package
    net = tf.layers.batch_normalization(net, fused=True)  # trap: fused batch norm
    rows = net.shape[0].value
    height = net.shape[1].value
    logits = tf.reshape(net, [rows, height * height, -1])
    positive = tf.to_float(labels > 0)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    per_positive = tf.reduce_sum(losses * positive) / FLAGS.batch_size  # no trap: one device's
    loss = per_positive + tf.losses.get_regularization_loss()

    center = tf.get_variable("center", [8], trainable=False)
    last = tf.assign(center, net[-1, 0, 0])  # no trap: as on one device
    count = tf.get_variable("count", [], trainable=False)
    counted = tf.assign_add(count, 1.0)
    with tf.control_dependencies([last, counted]):
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        train_op = slim.learning.create_train_op(loss, optimizer)  # trap: contrib package
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main(input_fn):
    estimator = tf.estimator.Estimator(model_fn)  # trap: replicate model fn
    estimator.train(input_fn)
