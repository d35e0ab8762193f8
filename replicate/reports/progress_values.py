"""Checks arguments of hooks, and finds the step, its loss and its rows in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.batch import SHARD_SCOPE

# The tensor in which `replicate_model_fn` counts the rows of each batch, an integer of shape [].
_BATCH_SIZE_TENSOR = SHARD_SCOPE + "batch_size:0"


def check_count(name: str, value: Any) -> None:
    """Raises unless `value` is None or an integer > 0."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(
            f"`{name}` must be an integer greater than 0, but is {value!r} "
            f"({type(value).__name__}). Convert it with int()."
        )
    if value <= 0:
        raise ValueError(
            f"`{name}` must be an integer greater than 0, but is {value}. Leave it out if it is "
            "not known."
        )


def check_config(config: tf.estimator.RunConfig | None) -> None:
    """Raises unless `config` is None or has a directory, for summaries."""
    if not (config is None or getattr(config, "model_dir", None)):
        raise ValueError(
            "Summaries go into the directory of the model, but `config` must be a `RunConfig` "
            f"with a `model_dir`, and is {config!r}. Pass `estimator.config`, or leave it out."
        )


def global_step(hook: str) -> tf.Variable:
    """Returns the global step of the default graph, for the hook with this name.

    Raises:
        RuntimeError: If the graph has none.
    """
    step = tf.train.get_global_step()
    if step is None:
        raise RuntimeError(
            f"{hook} counts global steps, but the graph has no global step. Call "
            "`tf.train.get_or_create_global_step()` where the graph is built and pass it to the "
            "optimizer."
        )
    return step


def _tensor_of_graph(argument: str, value: Any) -> Any:
    """Returns a scalar tensor, given the tensor or its name."""
    tensor = value
    if isinstance(value, str):
        try:
            tensor = tf.get_default_graph().get_tensor_by_name(
                value if ":" in value else f"{value}:0"
            )
        except KeyError:
            raise ValueError(
                f"`{argument}` must name a tensor of the training graph, but there is none called "
                f"{value!r}. Give the tensor a name with `tf.identity(tensor, name={value!r})` in "
                "`model_fn`, or pass the tensor itself."
            ) from None
    if not isinstance(tensor, tf.Tensor):
        raise TypeError(
            f"`{argument}` must be a tensor or the name of one, but is {value!r} "
            f"({type(value).__name__})."
        )
    if tensor.shape.rank not in (0, None):
        raise ValueError(
            f"`{argument}` must be a tensor of shape [], but {tensor.name!r} has shape "
            f"{tensor.shape}. Reduce it, e.g. with `tf.reduce_mean`."
        )
    return tensor


def loss_tensor(value: Any) -> Any:
    """Returns the loss to show, a float tensor of shape []; None if there is none."""
    if value is not None:
        return _tensor_of_graph("loss", value)
    losses = tf.losses.get_losses()
    return losses[-1] if losses and losses[-1].shape.rank == 0 else None


def batch_size(value: Any) -> Any:
    """Returns the rows per step: an int if fixed, else a tensor of shape []; None if unknown."""
    if value is None:
        try:
            tensor = tf.get_default_graph().get_tensor_by_name(_BATCH_SIZE_TENSOR)
        except KeyError:
            return None
    elif isinstance(value, (str, tf.Tensor)):
        tensor = _tensor_of_graph("batch_size", value)
    else:
        return int(value)
    static = tf.get_static_value(tensor)
    return tensor if static is None else int(static)
