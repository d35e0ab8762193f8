"""Small helpers of `tf.contrib.framework`."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.migration.contrib.respelling import respelled

load_checkpoint = respelled(
    tf.train.load_checkpoint, "load_checkpoint", "!filepattern=ckpt_dir_or_file"
)
load_variable = respelled(
    tf.train.load_variable, "load_variable", "!checkpoint_dir=ckpt_dir_or_file !name"
)
list_variables = respelled(
    tf.train.list_variables, "list_variables", "!checkpoint_dir=ckpt_dir_or_file"
)
init_from_checkpoint = respelled(
    tf.train.init_from_checkpoint,
    "init_from_checkpoint",
    "!checkpoint_dir=ckpt_dir_or_file !assignment_map",
)


def get_placeholders(graph: tf.Graph) -> list[tf.Tensor]:
    """Returns the placeholders of a graph.

    Args:
        graph: The graph.

    Raises:
        TypeError: If `graph` is not a graph.
    """
    if not isinstance(graph, tf.Graph):
        raise TypeError(f"`graph` must be a `tf.Graph`, but is {graph!r}.")
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


def get_name_scope() -> str:
    """Returns the current name scope of the default graph, such as "outer/inner"."""
    return tf.get_default_graph().get_name_scope()


def assert_scalar_int(tensor: Any, name: Any = None) -> Any:
    """Checks that a tensor is an integer scalar, and returns it.

    Args:
        tensor: The tensor.
        name: Name of the operation.

    Raises:
        ValueError: If it is not.
    """
    with tf.name_scope(name, "assert_scalar_int", [tensor]) as scope:
        tensor = tf.convert_to_tensor(tensor)
        if not tensor.dtype.base_dtype.is_integer:
            raise ValueError(f"{tensor.name} must be an integer, but is {tensor.dtype.name}.")
        return tf.assert_scalar(tensor, name=scope)
