"""Initializers of `tf.contrib.layers`, with the same numbers as TensorFlow 1.15, bit by bit.

`tf.glorot_uniform_initializer` divides before it multiplies, so that it differs in the last bit for
float64, and `tf.glorot_normal_initializer` draws from a narrower range.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import tensorflow.compat.v1 as tf

_MODES = ("FAN_IN", "FAN_OUT", "FAN_AVG")


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: tf.DType = tf.float32
) -> Callable[..., tf.Tensor]:
    """Returns an initializer that keeps the scale of gradients about the same in all layers.

    Args:
        uniform: Whether to draw from a uniform rather than a truncated normal distribution.
        seed: Seed of the operation, as for `tf.random_uniform`.
        dtype: Type of the numbers to draw, if the caller names none.

    Raises:
        TypeError: If `dtype` is no type of floating point numbers.
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: tf.DType = tf.float32,
) -> Callable[..., tf.Tensor]:
    """Returns an initializer whose variance falls with the number of inputs or outputs.

    Args:
        factor: Factor of the variance.
        mode: "FAN_IN" for the number of inputs, "FAN_OUT" for outputs, "FAN_AVG" for their mean.
        uniform: Whether to draw from a uniform rather than a truncated normal distribution.
        seed: Seed of the operation, as for `tf.random_uniform`.
        dtype: Type of the numbers to draw, if the caller names none.

    Raises:
        TypeError: If `dtype` is no type of floating point numbers, or `mode` none of the three.
    """
    _check_floating(dtype)
    if mode not in _MODES:
        raise TypeError(f"`mode` must be one of {', '.join(_MODES)}, but is {mode!r}.")

    def initializer(shape: Any, dtype: tf.DType = dtype, partition_info: Any = None) -> tf.Tensor:
        _check_floating(dtype)
        fans = dict(zip(_MODES, _fans(shape)))
        if uniform:
            limit = math.sqrt(3.0 * factor / fans[mode])
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # Truncation reduces the variance of a normal distribution by a factor of 1.3.
        stddev = math.sqrt(1.3 * factor / fans[mode])
        return tf.truncated_normal(shape, 0.0, stddev, dtype, seed=seed)

    return initializer


def _fans(shape: Any) -> tuple[float, float, float]:
    """Returns the number of inputs and of outputs of a weight, and their mean."""
    sizes = [float(size) for size in shape]
    last = sizes[-1] if sizes else 1.0
    before = sizes[-2] if len(sizes) > 1 else last
    for size in sizes[:-2]:
        before *= size
        last *= size
    return before, last, (before + last) / 2.0


def _check_floating(dtype: tf.DType) -> None:
    if not dtype.is_floating:
        raise TypeError(f"Weights are drawn as floating point numbers, but `dtype` is {dtype!r}.")
