"""Initialisers for kernels of depthwise convolutions.

Such a kernel is [height, width, channels, multiplier]; each of its outputs depends on one channel
alone. The initialisers of TensorFlow take the channels for inputs of each output, so that their
kernels come out too small.
"""

import math

import tensorflow.compat.v1 as tf

_FANS = {
    "fan_in": lambda fan_in, fan_out: fan_in,
    "fan_out": lambda fan_in, fan_out: fan_out,
    "fan_avg": lambda fan_in, fan_out: (fan_in + fan_out) / 2,
}
_DISTRIBUTIONS = ("truncated_normal", "untruncated_normal", "uniform")

# Standard deviation of a normal distribution with what is beyond twice its own cut off.
_TRUNCATED_STDDEV = 0.87962566103423978


class DepthwiseVarianceScaling(tf.keras.initializers.Initializer):
    """Draws a kernel with mean 0 and variance scale / fan.

    Args:
        scale: Number > 0.
        mode: What fan is: 'fan_in' is height · width, 'fan_out' height · width · multiplier, and
            'fan_avg' the mean of both.
        distribution: 'truncated_normal', cut at two standard deviations before the cut;
            'untruncated_normal'; or 'uniform'.
        seed: Int, or None for that of the graph.
        dtype: Float type of the kernel if the caller asks for none.

    Raises:
        ValueError: If an argument is not as above; when called, if the shape has not four axes.
    """

    def __init__(
        self,
        scale=1.0,
        mode="fan_in",
        distribution="truncated_normal",
        seed=None,
        dtype=tf.float32,
    ):
        if scale <= 0:
            raise ValueError(f"`scale` must be greater than 0, but is {scale}.")
        if mode not in _FANS:
            raise ValueError(f"`mode` must be one of {list(_FANS)}, but is {mode!r}.")
        if distribution not in _DISTRIBUTIONS:
            raise ValueError(
                f"`distribution` must be one of {list(_DISTRIBUTIONS)}, but is {distribution!r}."
            )
        self._scale = scale
        self._mode = mode
        self._distribution = distribution
        self._seed = seed
        self._dtype = _float_type(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        """Returns a kernel of `shape`, a sequence of four ints, and a float `dtype`."""
        del partition_info  # Part of the signature that TensorFlow expects.
        dtype = self._dtype if dtype is None else _float_type(dtype)
        shape = tf.TensorShape(shape).as_list()
        if len(shape) != 4:
            raise ValueError(
                "A depthwise kernel must have four axes, height, width, channels and multiplier, "
                f"but the shape is {shape}."
            )
        height, width, _, multiplier = shape
        fan = _FANS[self._mode](height * width, height * width * multiplier)
        stddev = math.sqrt(self._scale / fan)
        if self._distribution == "truncated_normal":
            stddev /= _TRUNCATED_STDDEV
            return tf.random.truncated_normal(shape, 0.0, stddev, dtype, self._seed)
        if self._distribution == "untruncated_normal":
            return tf.random.normal(shape, 0.0, stddev, dtype, self._seed)
        limit = math.sqrt(3.0) * stddev
        return tf.random.uniform(shape, -limit, limit, dtype, self._seed)

    def get_config(self):
        """Returns the arguments that make an equal initialiser."""
        return {
            "scale": self._scale,
            "mode": self._mode,
            "distribution": self._distribution,
            "seed": self._seed,
            "dtype": self._dtype.name,
        }


def depthwise_he_normal(seed=None):
    """Returns the initialiser of He et al. (ICCV 2015) for depthwise kernels.

    Args:
        seed: Int, or None for that of the graph.

    Returns:
        A `DepthwiseVarianceScaling` with variance 2 / (height · width), truncated normal.
    """
    return DepthwiseVarianceScaling(scale=2.0, seed=seed)


def _float_type(dtype):
    dtype = tf.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"`dtype` must be a float type, but is {dtype.name}.")
    return dtype
