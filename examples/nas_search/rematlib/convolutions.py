"""Convolutions, and those that use only some channels of their kernels.

Images are [batch, height, width, channels]. A *width* is a number of channels. A *masked* layer has
the weights of the largest width and uses the part that its masks leave: masks are tensors, so that
the width can be drawn again in each run. Its outputs have the largest width, and are 0 where the
mask is. Told how many channels are in use, it computes only these, and its outputs have no others:
that takes less time, but no XLA, which needs to know all shapes.
"""

import tensorflow.compat.v1 as tf

from examples.nas_search import depthwise_initializers
from examples.nas_search.rematlib.base import Layer
from examples.nas_search.rematlib.windows import Window


class Conv2D(Layer):
    """A convolution; unless padded otherwise, its output has sides ⌈side / stride⌉.

    Args:
        filters: Width of the output.
        kernel_size: Int, or pair (vertical, horizontal).
        strides: Int, or pair (vertical, horizontal).
        dilation_rates: How far neighbours in the kernel are apart, int or pair.
        kernel_initializer: As of `tf.get_variable`. None: He et al.'s normal distribution.
        kernel_regularizer: Function from the kernel [height, width, input width, `filters`] to its
            penalty, a scalar. None for none. Biases have no penalty.
        use_bias: Whether a bias [`filters`], 0 at first, is added.
        use_explicit_padding: Whether the border is padded alike for all sizes of images, see
            `windows.Window`.
        padding: "SAME", "VALID" or pixels, likewise.

    Raises:
        ValueError: If `dilation_rates` and `strides` both differ from 1, or `padding` is another.
    """

    def __init__(
        self,
        filters,
        kernel_size,
        strides=1,
        dilation_rates=1,
        kernel_initializer=None,
        kernel_regularizer=None,
        use_bias=False,
        use_explicit_padding=False,
        padding="SAME",
    ):
        super().__init__()
        self._filters = filters
        self._window = Window(kernel_size, strides, dilation_rates, use_explicit_padding, padding)
        self._initializer = kernel_initializer or tf.initializers.he_normal()
        self._regularizer = kernel_regularizer
        self._use_bias = use_bias

    def _parts(self, input_width):
        """Returns the parts in use of the kernel, for inputs of a width, and of the bias.

        Both are dicts of `masks` or `sizes`, see `Weight`.
        """
        del input_width
        return {}, {}

    def _setup(self, input_shape):
        width = input_shape.as_list()[3]
        of_kernel, of_bias = self._parts(width)
        shape = [*self._window.size, width, self._filters]
        self.add_weight("kernel", shape, self._initializer, self._regularizer, **of_kernel)
        if self._use_bias:
            self.add_weight("bias", [self._filters], tf.zeros_initializer(), **of_bias)
        return self._window.output_shape(input_shape, self._filters)

    def _call(self, inputs, run):
        kernel = self.weight("kernel").value(run, inputs.dtype)
        outputs = _slide(self._window, tf.nn.conv2d, inputs, kernel)
        if self._use_bias:
            outputs += self.weight("bias").value(run, inputs.dtype)
        return outputs


class DepthwiseConv2D(Layer):
    """A convolution of each channel by itself; sides of the output are those of `Conv2D`'s.

    Args:
        kernel_size: Int, or pair (vertical, horizontal).
        strides: Int, or pair of equal ints.
        dilation_rates: As in `Conv2D`.
        depthwise_initializer: As of `tf.get_variable`. None: `depthwise_he_normal`.
        depthwise_regularizer: Function from the kernel [height, width, channels, 1] to its penalty,
            a scalar. None for none.
        use_explicit_padding: As in `Conv2D`.
        padding: As in `Conv2D`.

    Raises:
        ValueError: If `dilation_rates` and `strides` both differ from 1, strides differ, or
            `padding` is another.
    """

    def __init__(
        self,
        kernel_size,
        strides=1,
        dilation_rates=1,
        depthwise_initializer=None,
        depthwise_regularizer=None,
        use_explicit_padding=False,
        padding="SAME",
    ):
        super().__init__()
        self._window = Window(kernel_size, strides, dilation_rates, use_explicit_padding, padding)
        if len(set(self._window.strides)) > 1:
            raise ValueError(
                "Depthwise convolutions have the same stride in both directions, but `strides` is "
                f"{strides}. TensorFlow knows no others."
            )
        self._initializer = depthwise_initializer or depthwise_initializers.depthwise_he_normal()
        self._regularizer = depthwise_regularizer

    def _part(self, input_width):
        """Returns the part in use of the kernel, for inputs of a width: `masks` or `sizes`."""
        del input_width
        return {}

    def _setup(self, input_shape):
        width = input_shape.as_list()[3]
        part = self._part(width)
        shape = [*self._window.size, width, 1]
        self.add_weight("depthwise_kernel", shape, self._initializer, self._regularizer, **part)
        return self._window.output_shape(input_shape, width)

    def _call(self, inputs, run):
        kernel = self.weight("depthwise_kernel").value(run, inputs.dtype)
        return _slide(self._window, tf.nn.depthwise_conv2d, inputs, kernel)


class MaskedConv2D(Conv2D):
    """A `Conv2D` between drawn widths.

    Args:
        kernel_size: As in `Conv2D`.
        input_mask: Tensor [largest input width] of 1 for channels in use and else 0. None if all
            are.
        output_mask: Tensor [largest output width], likewise.
        counts: How many channels of inputs and of outputs are in use, a pair of ints or int32
            scalar tensors; that of inputs is ignored if `input_mask` is None. None: not told, and
            all are computed.
        **kwargs: As of `Conv2D`. The penalty is that of the part of the kernel in use.
    """

    def __init__(self, kernel_size, input_mask, output_mask, counts=None, **kwargs):
        super().__init__(output_mask.shape.as_list()[0], kernel_size, **kwargs)
        self._input_mask = input_mask
        self._output_mask = output_mask
        self._counts = counts

    def _parts(self, input_width):
        if self._input_mask is not None:
            _check_width("input_mask", self._input_mask, input_width)
        if self._counts is not None:
            inputs, outputs = self._counts
            inputs = input_width if self._input_mask is None else inputs
            return {"sizes": [*self._window.size, inputs, outputs]}, {"sizes": [outputs]}
        output_mask = tf.stop_gradient(self._output_mask)
        masks = [output_mask]
        if self._input_mask is not None:
            masks.insert(0, tf.stop_gradient(self._input_mask)[:, tf.newaxis])
        return {"masks": masks}, {"masks": [output_mask]}


class MaskedDepthwiseConv2D(DepthwiseConv2D):
    """A `DepthwiseConv2D` of a drawn width.

    Args:
        kernel_size: As in `DepthwiseConv2D`.
        mask: Tensor [largest width] of 1 for channels in use and else 0.
        count: How many channels are in use, int32 scalar tensor. None: not told, and all are
            computed.
        **kwargs: As of `DepthwiseConv2D`. The penalty is that of the part of the kernel in use.
    """

    def __init__(self, kernel_size, mask, count=None, **kwargs):
        super().__init__(kernel_size, **kwargs)
        self._mask = mask
        self._count = count

    def _part(self, input_width):
        _check_width("mask", self._mask, input_width)
        if self._count is not None:
            return {"sizes": [*self._window.size, self._count, 1]}
        return {"masks": [tf.stop_gradient(self._mask)[:, tf.newaxis]]}


def _slide(window, convolution, inputs, kernel):
    """Calls `tf.nn.conv2d` or `tf.nn.depthwise_conv2d`."""
    inputs, padding = window.pad(inputs)
    strides = [1, *window.strides, 1]
    return convolution(inputs, kernel, strides, padding, dilations=window.dilations)


def _check_width(name, mask, input_width):
    (width,) = mask.shape.as_list()
    if width != input_width:
        raise ValueError(
            f"`{name}` must have an entry for each channel of the inputs, but has {width} for "
            f"{input_width} channels. Pad the inputs to the largest width with `DepthPadding`."
        )
