"""Definition of a small SSD network: a backbone with batch norm, and two multi-box heads."""

import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib.framework import arg_scope


def ssd_arg_scope(weight_decay=0.0005, is_training=True):
    batch_norm_params = {
        "is_training": is_training,
        "decay": 0.9,
        "epsilon": 0.001,
        "updates_collections": tf.GraphKeys.UPDATE_OPS,
    }
    with arg_scope(
        [slim.conv2d],
        activation_fn=tf.nn.relu,
        weights_regularizer=slim.l2_regularizer(weight_decay),
        weights_initializer=tf.contrib.layers.xavier_initializer(seed=6),
        biases_initializer=tf.zeros_initializer(),
    ):
        with arg_scope([slim.conv2d, slim.max_pool2d], padding="SAME"):
            with arg_scope([slim.batch_norm], **batch_norm_params) as scope:
                return scope


def _multibox_head(net, num_classes, num_anchors):
    """Constructs a class and a location layer, both over all default boxes of `net`."""
    shape = net.get_shape().as_list()
    boxes = shape[1] * shape[2] * num_anchors
    locations = slim.conv2d(
        net, num_anchors * 4, [3, 3], activation_fn=None, normalizer_fn=None, scope="conv_loc"
    )
    classes = slim.conv2d(
        net,
        num_anchors * num_classes,
        [3, 3],
        activation_fn=None,
        normalizer_fn=None,
        scope="conv_cls",
    )
    return tf.reshape(classes, [-1, boxes, num_classes]), tf.reshape(locations, [-1, boxes, 4])


def ssd_net(inputs, num_classes, is_training=True, reuse=None, scope="ssd_24"):
    end_points = {}
    with tf.variable_scope(scope, "ssd_24", [inputs], reuse=reuse):
        with slim.arg_scope([slim.conv2d], normalizer_fn=slim.batch_norm):
            net = slim.repeat(inputs, 2, slim.conv2d, 8, [3, 3], scope="conv1")
            net = slim.max_pool2d(net, [2, 2], scope="pool1")
            net = slim.conv2d(net, 12, [3, 3], scope="conv2")
            net = slim.max_pool2d(net, [2, 2], scope="pool2")
            end_points["block2"] = net = slim.conv2d(net, 12, [3, 3], scope="conv3")
            end_points["block3"] = slim.conv2d(net, 16, [3, 3], stride=2, scope="conv4")
            net = slim.dropout(net, 1.0, is_training=is_training, scope="dropout4")
        classes, locations = [], []
        for layer in ("block2", "block3"):
            with tf.variable_scope(layer + "_box"):
                class_logits, location = _multibox_head(end_points[layer], num_classes, 2)
            classes.append(class_logits)
            locations.append(location)
    return tf.concat(classes, 1), tf.concat(locations, 1), end_points
