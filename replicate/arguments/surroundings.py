"""Checks of the context in which a replicated `model_fn` is called."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat import estimator
from replicate.graphs import ancestors
from replicate.reduction import chosen


def check() -> None:
    """Raises if a model cannot be replicated in this context.

    Raises:
        RuntimeError: If TensorFlow executes eagerly.
        ValueError: If this is under a strategy of tf.distribute, or in a replicated model.
    """
    if tf.executing_eagerly():
        raise RuntimeError(
            "`model_fn` builds a graph, but was called outside of one. Let an Estimator call it, "
            "or call it within `with tf.Graph().as_default():`."
        )
    if tf.distribute.has_strategy():
        raise ValueError(
            "`replicate_model_fn` runs a model on all devices by itself, but was called under "
            f"{type(tf.distribute.get_strategy()).__name__}. Drop `train_distribute` and "
            "`eval_distribute` from the `RunConfig`, or pass the Estimator the plain `model_fn`."
        )
    if is_replicated():
        raise ValueError(
            "A model can be replicated once, but was replicated again inside a replicated model. "
            "Call `replicate_model_fn` only where you create the Estimator."
        )


def is_replicated() -> bool:
    """Whether this is inside of a replicated model that is being built."""
    return chosen.is_listening()


def is_for_export(features: Any, mode: str | None) -> bool:
    """Whether the graph is for a SavedModel, which must hold neither towers nor devices."""
    if estimator.is_exporting():
        return True
    # Code that exports by hand uses placeholders; `Estimator.predict` does not.
    if mode != estimator.ModeKeys.PREDICT:
        return False
    leaves = tf.nest.flatten(features, expand_composites=True)
    tensors = [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]
    return any(op.type == "Placeholder" for op in ancestors(tensors, waits=False))
