"""Changes the summary that TensorFlow's hooks save, an attribute without a public name."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

import tensorflow.compat.v1 as tf


def save_others(
    hooks: Iterable[tf.train.SessionRunHook], others: Sequence[tuple[tf.Tensor, tf.Tensor]]
) -> None:
    """Replaces summaries that `tf.train.SummarySaverHook`s save.

    Args:
        hooks: Iterable of hooks.
        others: List of pairs: a tensor, and the tensor to save in its place.
    """
    for hook in hooks:
        if isinstance(hook, tf.train.SummarySaverHook):
            hook._summary_op = tf.nest.map_structure(
                lambda given: other_of(given, others), hook._summary_op
            )


def other_of(given: Any, others: Sequence[tuple[tf.Tensor, tf.Tensor]]) -> Any:
    """Returns the replacement of `given`, or `given` if there is none."""
    for tensor, other in others:
        if given is tensor:
            return other
    return given
