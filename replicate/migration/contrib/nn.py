"""Cross entropies of `tf.contrib.nn`, which take logits before labels."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


def deprecated_flipped_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, dim: int = -1, name: str | None = None
) -> tf.Tensor:
    """Returns the losses of `tf.nn.softmax_cross_entropy_with_logits`.

    Args:
        logits: Unscaled scores of classes.
        labels: Probabilities of classes, through which no gradient passes.
        dim: The axis of classes.
        name: Name of the operation.
    """
    return tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=dim, name=name)


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, name: str | None = None
) -> tf.Tensor:
    """Returns the losses of `tf.nn.sparse_softmax_cross_entropy_with_logits`.

    Args:
        logits: Unscaled scores of classes.
        labels: Indices of classes.
        name: Name of the operation.
    """
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def deprecated_flipped_sigmoid_cross_entropy_with_logits(
    logits: Any, targets: Any, name: str | None = None
) -> tf.Tensor:
    """Returns the losses of `tf.nn.sigmoid_cross_entropy_with_logits`.

    Args:
        logits: Unscaled scores.
        targets: Probabilities.
        name: Name of the operation.
    """
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)
