"""Layers without weights. All keep the type of their inputs."""

import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib import tensors
from examples.nas_search.rematlib.base import Layer


class _Elementwise(Layer):
    """Has an output of the shape of its input."""

    def _setup(self, input_shape):
        return input_shape


class Identity(_Elementwise):
    """x."""

    def _call(self, inputs, run):
        return inputs


class ReLU(_Elementwise):
    """max(x, 0)."""

    def _call(self, inputs, run):
        return tf.nn.relu(inputs)


class ReLU6(_Elementwise):
    """min(max(x, 0), 6)."""

    def _call(self, inputs, run):
        return tf.nn.relu6(inputs)


class Sigmoid(_Elementwise):
    """1 / (1 + exp(−x))."""

    def _call(self, inputs, run):
        return tf.nn.sigmoid(inputs)


class Swish(_Elementwise):
    """x · sigmoid(x)."""

    def _call(self, inputs, run):
        return inputs * tf.nn.sigmoid(inputs)


class Swish6(_Elementwise):
    """x · relu6(x + 3) / 6."""

    def _call(self, inputs, run):
        return inputs * (tf.nn.relu6(inputs + 3) / 6)


class ELU(_Elementwise):
    """x, where it is negative exp(x) − 1."""

    def _call(self, inputs, run):
        return tf.nn.elu(inputs)


class Zeros(Layer):
    """0.

    Args:
        output_shape: Shape of the output, sequence; where it is None the size of the input counts,
            as it does for the batch always. None for the shape of the input.
        channels: As in `Switch`.
    """

    def __init__(self, output_shape=None, channels=None):
        super().__init__()
        self._output_shape = output_shape
        self._channels = channels

    def _setup(self, input_shape):
        shape = input_shape.as_list()
        if self._output_shape is None:
            return shape
        if len(self._output_shape) != len(shape):
            raise ValueError(
                f"`output_shape` must have as many axes as the inputs, of shape {input_shape}, but "
                f"is {self._output_shape}. Use None for sizes that are those of the input."
            )
        return [theirs if own is None else own for own, theirs in zip(self._output_shape, shape)]

    def _call(self, inputs, run):
        if self._output_shape is None:
            return tf.zeros_like(inputs)
        return tensors.zeros_of_batch(inputs, self._built_shape(inputs), self._channels)


class MultiplyByConstant(_Elementwise):
    """scale · x.

    Args:
        scale: Number or scalar tensor; it gets no gradient.
    """

    def __init__(self, scale):
        super().__init__()
        self._scale = scale

    def _call(self, inputs, run):
        return inputs * tf.cast(tf.stop_gradient(self._scale), inputs.dtype)


class SpatialMasking(_Elementwise):
    """x with some pixels set to 0.

    Args:
        mask2d: Array or tensor [height, width], 0 for those pixels and else 1.
    """

    def __init__(self, mask2d):
        super().__init__()
        self._mask = mask2d

    def _setup(self, input_shape):
        shape = tf.convert_to_tensor(self._mask).shape
        if not shape.is_compatible_with(input_shape[1:3]):
            raise ValueError(
                f"`mask2d` must have the height and width of the inputs, {input_shape[1:3]}, but "
                f"has {shape}."
            )
        return input_shape

    def _call(self, inputs, run):
        return inputs * tf.cast(tf.stop_gradient(self._mask), inputs.dtype)[:, :, tf.newaxis]


class SpaceToDepth(Layer):
    """Turns squares of pixels into channels.

    Args:
        block: Side of a square, int.
    """

    def __init__(self, block):
        super().__init__()
        self._block = block

    def _setup(self, input_shape):
        batch, height, width, channels = input_shape.as_list()
        if any(side is not None and side % self._block for side in (height, width)):
            raise ValueError(
                f"`block` must divide height and width of the inputs, of shape {input_shape}, but "
                f"is {self._block}."
            )
        sides = [None if side is None else side // self._block for side in (height, width)]
        return [batch, *sides, channels * self._block**2]

    def _call(self, inputs, run):
        return tf.nn.space_to_depth(inputs, self._block)


class DepthPadding(Layer):
    """Appends channels of zeros.

    Args:
        filters: Number of channels of the output.
    """

    def __init__(self, filters):
        super().__init__()
        self._filters = filters

    def _setup(self, input_shape):
        channels = input_shape.as_list()[3]
        if channels > self._filters:
            raise ValueError(
                f"`filters` must be at least the number of channels of the inputs, {channels}, but "
                f"is {self._filters}."
            )
        return [*input_shape.as_list()[:3], self._filters]

    def _call(self, inputs, run):
        return tf.pad(inputs, [[0, 0]] * 3 + [[0, self._filters - inputs.shape.as_list()[3]]])


class Dropout(_Elementwise):
    """In training, sets elements to 0 at random and scales the others, so that the mean stays.

    Args:
        rate: Probability with which an element is dropped, in [0, 1].

    Raises:
        ValueError: If it is no probability.
    """

    def __init__(self, rate=0.5):
        super().__init__()
        if not 0 <= rate <= 1:
            raise ValueError(f"`rate` must lie in [0, 1], but is {rate}: it is a probability.")
        self._rate = rate

    def _prepare(self, run):
        # Drawn once: a `Switch` that runs the layer again for gradients must drop the same paths.
        if run.training and self._rate:
            run.values[self] = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)

    def _call(self, inputs, run):
        if not (run.training and self._rate):
            return inputs
        noise = tf.random.stateless_uniform(tf.shape(inputs), run.values[self])
        scale = 1 / (1 - self._rate) if self._rate < 1 else 0
        return inputs * tf.cast(noise >= self._rate, inputs.dtype) * scale
