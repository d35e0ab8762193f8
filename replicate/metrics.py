"""Declarations of metrics, which are no longer needed: metrics are those of the whole batch."""

from __future__ import annotations

from typing import Callable, Sequence

import tensorflow.compat.v1 as tf

__all__ = ("declare_merge",)


def declare_merge(
    variables: tf.Variable | list[tf.Variable] | tuple[tf.Variable, ...],
    merge: Callable[..., tf.Tensor | Sequence[tf.Tensor]],
) -> None:
    """Does nothing: metrics of any kind are computed from the whole batch, as on one device.

        product = tf.get_variable("product", [], initializer=tf.ones_initializer(),
                                  collections=[tf.GraphKeys.LOCAL_VARIABLES])
        replicate.metrics.declare_merge(product, tf.reduce_prod)

    It is accepted for code that was written when each tower had separate values.

    Args:
        variables: A variable, or a list of them.
        merge: Function of a stacked value for each variable.

    Raises:
        TypeError: If `merge` cannot be called.
    """
    if not callable(merge):
        raise TypeError(f"`merge` must be a function of stacked values, but is {merge!r}.")
    del variables
