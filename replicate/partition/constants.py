"""Constants of the graph that each tower copies, instead of receiving them from a device."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import partitioning

_LARGE = 2**16  # Constants with more entries are sent across devices.


class Constant(NamedTuple):
    """A constant to copy: its `NodeDef`, its type, and its serialized value."""

    node: Any
    dtype: Any
    value: bytes


class Constants:
    """Reads each constant once, for all operations that take it.

    Args:
        place: Device string of constants that are not copied.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._copied: dict[Any, Constant] = {}
        self._outside: dict[Any, Any] = {}

    def copied(self, tensor: Any) -> Constant:
        """Returns a constant as it is to be copied."""
        if tensor.op not in self._copied:
            node = partitioning.unplaced(tensor.op.node_def)
            value = node.attr["value"].SerializeToString()
            self._copied[tensor.op] = Constant(node, tensor.dtype, value)
        return self._copied[tensor.op]

    def outside(self, tensor: Any) -> Any:
        """Returns a constant of a loop as a tensor outside of the loop."""
        if tensor.op not in self._outside:
            with tf.control_dependencies(None), tf.device(self._place):
                value = tf.make_ndarray(tensor.op.get_attr("value"))
                self._outside[tensor.op] = tf.constant(value, tensor.dtype)
        return self._outside[tensor.op]


def is_small(tensor: Any) -> bool:
    """Whether a tensor is copied rather than sent: a small constant without control inputs."""
    operation = tensor.op
    if operation.type != "Const" or operation.control_inputs:
        return False
    return (tensor.shape.num_elements() or 0) <= _LARGE
