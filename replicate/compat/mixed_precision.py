"""TensorFlow's own optimizers that scale losses."""

import tensorflow.compat.v1 as tf


def without_loss_scale(optimizer):
    """Takes apart an optimizer that scales losses.

    Such are `tf.mixed_precision.MixedPrecisionLossScaleOptimizer`, which
    `enable_mixed_precision_graph_rewrite` wraps around others, and Keras' `LossScaleOptimizer`.
    They would check the gradients of replicas one by one, and after they are clipped.

    Args:
        optimizer: Any optimizer. What somebody derives from these may apply gradients in its own
            way, so it stays as it is.

    Returns:
        What it wraps, and its loss scale: an object like a `LossScale`, or a number. For all other
        optimizers themselves, and None.
    """
    # Under the name that every version has.
    if type(optimizer) is tf.train.experimental.MixedPrecisionLossScaleOptimizer:
        return optimizer._optimizer, optimizer._loss_scale
    if type(optimizer).__name__ == "LossScaleOptimizer" and hasattr(optimizer, "inner_optimizer"):
        return optimizer.inner_optimizer, optimizer._loss_scale
    return optimizer, None
