"""Multiplies losses by a scale, divides gradients by it, and updates the scale."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.engines import context, finite


def scaled(loss: Any, scale: tf.Tensor) -> Any:
    """Multiplies a loss by a scale.

    Args:
        loss: Floating tensor, or a function without arguments that returns one.
        scale: Float32 scalar tensor.

    Returns:
        A tensor of the loss's dtype and shape, or a function that returns it.
    """
    if callable(loss):
        return lambda: scaled(loss(), scale)
    loss = tf.convert_to_tensor(loss)
    return loss * tf.cast(scale, loss.dtype)


def unscaled(gradient: Any, scale: tf.Tensor) -> Any:
    """Divides a gradient by a scale.

    Args:
        gradient: Floating tensor, `tf.IndexedSlices` of floats, or None.
        scale: Float32 scalar tensor.

    Returns:
        A gradient of the same kind and dtype; None for None.
    """
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = unscaled(gradient.values, scale)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    gradient = tf.convert_to_tensor(gradient)
    if gradient.dtype in (tf.float16, tf.bfloat16):  # A scale above 65504 is infinite in float16.
        return tf.cast(tf.cast(gradient, tf.float32) / scale, gradient.dtype)
    return gradient / tf.cast(scale, gradient.dtype)


def update_from_reduced(scale: Any, grads: Any) -> Any:
    """Updates a loss scale from gradients of the whole batch, which are the same in all towers.

    Args:
        scale: A loss scale of `replicate.loss_scale` or of `tf.compat.v1.mixed_precision`.
        grads: Nested structure of unscaled gradients, as `LossScale.update` takes them.

    Returns:
        The result of the loss scale's `update`.
    """
    # Even if the update ignores the gradients, they must be divided before the scale changes.
    parts = [getattr(gradient, "values", gradient) for gradient in tf.nest.flatten(grads)]
    divided = [part for part in parts if isinstance(part, tf.Tensor)]

    def update() -> Any:
        with finite.same_in_all_towers(), tf.control_dependencies(divided):
            return scale.update(grads)

    return context.call_once(update, "update of a loss scale from reduced gradients")
