"""Pooling: one pixel of each window. All layers keep the type of their inputs."""

import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib.base import Layer
from examples.nas_search.rematlib.windows import Window


class _Pool(Layer):
    """One pixel of each window; unless padded otherwise, the output has sides ⌈side / stride⌉."""

    def __init__(self, pool_size, strides=1, use_explicit_padding=False, padding="SAME"):
        super().__init__()
        self._window = Window(
            pool_size, strides, use_explicit_padding=use_explicit_padding, padding=padding
        )
        self._window.check_covers_pixels()

    def _setup(self, input_shape):
        return self._window.output_shape(input_shape, input_shape.as_list()[3])

    def _pool(self, pool, inputs, value):
        """Calls `tf.nn.max_pool2d` or `tf.nn.avg_pool2d` on images padded with a value."""
        inputs, padding = self._window.pad(inputs, value)
        return pool(inputs, self._window.size, self._window.strides, padding)


class MaxPool(_Pool):
    """The largest value of each window; what pads the border is never the largest.

    Args:
        pool_size: Sides of a window, int or pair (vertical, horizontal).
        strides: How far windows are apart, int or pair (vertical, horizontal).
        use_explicit_padding: Whether the border is padded alike for all sizes of images, see
            `windows.Window`.
        padding: "SAME", "VALID" or pixels, likewise.

    Raises:
        ValueError: If `padding` is another, or as wide as a window.
    """

    def _call(self, inputs, run):
        return self._pool(tf.nn.max_pool2d, inputs, float("-inf"))


class AveragePool(_Pool):
    """The mean of each window; what pads the border does not count.

    Args:
        pool_size: As in `MaxPool`.
        strides: As in `MaxPool`.
        use_explicit_padding: As in `MaxPool`.
        padding: As in `MaxPool`.

    Raises:
        ValueError: As `MaxPool`.
    """

    def _call(self, inputs, run):
        means = self._pool(tf.nn.avg_pool2d, inputs, 0.0)
        if not self._window.is_padding:
            return means
        # How much of each window is image.
        shares = self._pool(tf.nn.avg_pool2d, tf.ones_like(inputs[:1, :, :, :1]), 0.0)
        return means / shares


class GlobalAveragePool(Layer):
    """The mean over height and width.

    Args:
        keepdims: Whether these axes stay, with size 1.
    """

    def __init__(self, keepdims=False):
        super().__init__()
        self._keepdims = keepdims

    def _setup(self, input_shape):
        batch, _, _, channels = input_shape.as_list()
        return [batch, 1, 1, channels] if self._keepdims else [batch, channels]

    def _call(self, inputs, run):
        return tf.reduce_mean(inputs, axis=[1, 2], keepdims=self._keepdims)
