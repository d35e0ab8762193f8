"""The multi-box loss: classes with hard negatives, and smooth L1 for locations."""

import tensorflow as tf

slim = tf.contrib.slim


def abs_smooth(x):
    absx = tf.abs(x)
    minx = tf.minimum(absx, 1)
    return 0.5 * ((absx - 1) * minx + absx)


def hard_negatives(losses, positive, ratio):
    """Marks, in each image, as many of the hardest negatives as `ratio` times the positives."""
    count = tf.minimum(ratio * tf.reduce_sum(positive, 1), tf.reduce_sum(1.0 - positive, 1))
    order = tf.contrib.framework.argsort(-losses * (1.0 - positive), axis=1)
    rank = tf.contrib.framework.argsort(order, axis=1)
    return tf.to_float(tf.less(tf.to_float(rank), tf.expand_dims(count, 1))) * (1.0 - positive)


def ssd_losses(logits, locations, classes, targets, negative_ratio=3.0, alpha=1.0, scope=None):
    with tf.name_scope(scope, "ssd_losses", [logits, locations]):
        positive = tf.to_float(classes > 0)
        n_positives = tf.reduce_sum(positive)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=classes)
        negative = tf.stop_gradient(hard_negatives(losses, positive, negative_ratio))
        with tf.name_scope("cross_entropy_pos"):
            loss_pos = tf.div(tf.reduce_sum(losses * positive), n_positives, name="value")
            tf.losses.add_loss(loss_pos)
        with tf.name_scope("cross_entropy_neg"):
            loss_neg = tf.div(tf.reduce_sum(losses * negative), n_positives, name="value")
            tf.losses.add_loss(loss_neg)
        with tf.name_scope("localization"):
            weights = tf.expand_dims(alpha * positive, axis=-1)
            error = abs_smooth(locations - targets)
            loss_loc = tf.div(tf.reduce_sum(error * weights), n_positives, name="value")
            tf.losses.add_loss(loss_loc)
    return loss_pos, loss_neg, loss_loc
