"""Unwraps TensorFlow's optimizers that scale losses."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


def without_loss_scale(optimizer: Any) -> tuple[Any, Any]:
    """Unwraps an optimizer that scales losses.

    These are `tf.mixed_precision.MixedPrecisionLossScaleOptimizer`, which
    `enable_mixed_precision_graph_rewrite` wraps around others, and Keras' `LossScaleOptimizer`.
    They would check the gradients of each replica separately, and after clipping.

    Args:
        optimizer: Any optimizer. Subclasses of these classes are not unwrapped: they may apply
            gradients differently.

    Returns:
        The wrapped optimizer, and the loss scale: an object like a `LossScale`, or a number. For
        any other optimizer, itself and None.
    """
    # Every version has this name of the class.
    if type(optimizer) is tf.train.experimental.MixedPrecisionLossScaleOptimizer:
        return optimizer._optimizer, optimizer._loss_scale
    if type(optimizer).__name__ == "LossScaleOptimizer" and hasattr(optimizer, "inner_optimizer"):
        return optimizer.inner_optimizer, optimizer._loss_scale
    return optimizer, None
