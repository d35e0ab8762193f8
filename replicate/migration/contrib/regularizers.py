"""Regularizers of `tf.contrib.layers`: functions of weights that return a penalty."""

from __future__ import annotations

import numbers
from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

Regularizer = Callable[..., Optional[tf.Tensor]]


def l1_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """Returns a function that multiplies the sum of absolute weights by a number.

    Args:
        scale: The number, a float or a tensor; 0.0 means no penalty.
        scope: Name of the operations' scope.

    Raises:
        ValueError: If `scale` is an integer or negative.
    """
    if _is_off(scale):
        return _nothing

    def l1(weights: Any, name: str | None = None) -> tf.Tensor:
        with tf.name_scope(scope, "l1_regularizer", [weights]) as name:
            return tf.multiply(_scale(scale, weights), tf.reduce_sum(tf.abs(weights)), name=name)

    return l1


def l2_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """Returns a function that multiplies half the sum of squared weights by a number.

    Args:
        scale: The number, a float or a tensor; 0.0 means no penalty.
        scope: Name of the operations' scope.

    Raises:
        ValueError: If `scale` is an integer or negative.
    """
    if _is_off(scale):
        return _nothing

    def l2(weights: Any) -> tf.Tensor:
        with tf.name_scope(scope, "l2_regularizer", [weights]) as name:
            return tf.multiply(_scale(scale, weights), tf.nn.l2_loss(weights), name=name)

    return l2


def l1_l2_regularizer(
    scale_l1: Any = 1.0, scale_l2: Any = 1.0, scope: str | None = None
) -> Regularizer | None:
    """Returns a function that computes the sum of both penalties.

    Args:
        scale_l1: As for `l1_regularizer`.
        scale_l2: As for `l2_regularizer`.
        scope: Name of the operations' scope.

    Raises:
        ValueError: If a scale is an integer or negative.
    """
    for name, scale in (("scale_l1", scale_l1), ("scale_l2", scale_l2)):
        if isinstance(scale, numbers.Integral):
            raise ValueError(f"`{name}` must be a float, but is {scale!r}: write {scale!r}.0.")
    scope = scope or "l1_l2_regularizer"
    if _is_zero(scale_l1):
        return l2_regularizer(scale_l2, scope)
    if _is_zero(scale_l2):
        return l1_regularizer(scale_l1, scope)
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope=scope)


def sum_regularizer(
    regularizer_list: list[Regularizer | None], scope: str | None = None
) -> Regularizer | None:
    """Returns a function that computes the sum of several penalties, or None if there are none.

    Args:
        regularizer_list: Regularizers; None is ignored.
        scope: Name of the operations' scope.
    """
    regularizers = [one for one in regularizer_list if one is not None]
    if not regularizers:
        return None

    def sum_reg(weights: Any) -> tf.Tensor | None:
        with tf.name_scope(scope, "sum_regularizer", [weights]) as name:
            penalties = [one(weights) for one in regularizers]
            penalties = [penalty for penalty in penalties if penalty is not None]
            return tf.add_n(penalties, name=name) if penalties else None

    return sum_reg


def apply_regularization(
    regularizer: Regularizer, weights_list: list[Any] | None = None
) -> tf.Tensor:
    """Returns the sum of the penalties of weights, and adds it to the regularization losses.

    Args:
        regularizer: Function of weights that returns a scalar tensor or None.
        weights_list: The weights; None for the collection `tf.GraphKeys.WEIGHTS`.

    Raises:
        ValueError: If there are no weights, or a penalty is not a scalar.
    """
    weights_list = weights_list or tf.get_collection(tf.GraphKeys.WEIGHTS)
    if not weights_list:
        raise ValueError(
            "There are no weights: neither `weights_list` nor the collection WEIGHTS has any."
        )
    with tf.name_scope(None, "get_regularization_penalty", weights_list) as scope:
        given = [regularizer(weights) for weights in weights_list]
        penalties = [tf.constant(0.0) if one is None else one for one in given]
        for penalty in penalties:
            if penalty.shape.ndims != 0:
                raise ValueError(
                    f"`regularizer` must return scalars, but {penalty.name} has rank "
                    f"{penalty.shape.ndims}."
                )
        total = tf.add_n(penalties, name=scope)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, total)
        return total


def _is_off(scale: object) -> bool:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"`scale` must be a float, but is {scale!r}: write {scale!r}.0.")
    if isinstance(scale, numbers.Real) and scale < 0.0:
        raise ValueError(f"`scale` must not be negative, but is {scale!r}.")
    return _is_zero(scale)


def _is_zero(scale: object) -> bool:
    return isinstance(scale, numbers.Real) and scale == 0.0


def _nothing(_: Any) -> None:
    return None


def _scale(scale: Any, weights: tf.Tensor) -> tf.Tensor:
    return tf.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
