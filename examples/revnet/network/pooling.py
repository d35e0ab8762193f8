"""Pooling in both data formats.

Eagerly on a CPU, TensorFlow 2.15 pools channels-first tensors as if channels were last, and gives
wrong values without an error. So they are transposed, which few places of a network need.
"""

import tensorflow.compat.v1 as tf


def average(x, stride, channels_first):
    """Returns the means over windows of `stride` pixels a side; at the edge, over what is there.

    Args:
        x: Float [n, height, width, channels], or [n, channels, height, width].
        stride: Int.
        channels_first: Which of the two `x` is.
    """
    return _pooled(tf.nn.avg_pool2d, x, stride, stride, channels_first)


def maximum(x, size, stride, channels_first):
    """Returns the maxima over windows of `size` pixels a side, `stride` pixels apart."""
    return _pooled(tf.nn.max_pool2d, x, size, stride, channels_first)


def _pooled(pool, x, size, stride, channels_first):
    if not channels_first:
        return pool(x, size, stride, "SAME")
    pooled = pool(tf.transpose(x, [0, 2, 3, 1]), size, stride, "SAME")
    return tf.transpose(pooled, [0, 3, 1, 2])
