"""Constants that each tower computes for itself, instead of receiving them from a device."""

from __future__ import annotations

from typing import Any, Container, Dict, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types, partitioning
from replicate.layouts import Layouts
from replicate.partition.origins import Origins

# Constants with more entries are sent across devices; so are results of operations on constants
# that have, or take, more entries than the second number.
_LARGE, _LARGE_COMPUTED = 2**16, 2**10
# They are dead if another branch is taken, or may be fed.
_NOT_CONSTANT = ("Switch", "Merge", "Enter", "Exit", "NextIteration", "Placeholder")

Waits = Dict[Any, Tuple[Any, ...]]
"""By operation that depends on constants alone: the operations in towers that a copy waits for."""


class Constant(NamedTuple):
    """A constant to copy, or an operation that computes one from others.

    Attributes:
        node: Its `NodeDef`, without inputs.
        dtype: The type of the output that is taken.
        output: The index of that output.
        inputs: The constants that it takes.
        waits: Names of the operations that it waits for.
        value: Its type and its serialized attributes, equal for operations that compute the same.
    """

    node: Any
    dtype: Any
    output: int
    inputs: tuple[Constant, ...]
    waits: tuple[str, ...]
    value: Any

    @property
    def key(self) -> Any:
        """Equal for constants that one operation can compute."""
        return self.value, self.waits, tuple((one.key, one.output) for one in self.inputs)


class Constants:
    """Reads each constant once, for all operations that take it.

    Args:
        place: Device string of constants that are not copied.
        waits: Those operations of the graph that `find` has found.
    """

    def __init__(self, place: str, waits: Waits) -> None:
        self._place = place
        self._waits = waits
        self._copied: dict[Any, Constant] = {}
        self._outside: dict[Any, Any] = {}

    def is_copied(self, tensor: Any) -> bool:
        """Whether a tensor is computed by each tower rather than sent."""
        return tensor.op in self._waits or _is_small(tensor.op)

    def copied(self, tensor: Any) -> Constant:
        """Returns a tensor of which `is_copied` holds as it is to be copied."""
        key = graph_lib.reference(tensor)
        if key not in self._copied:
            operation = tensor.op
            node = partitioning.unplaced(operation.node_def)
            self._copied[key] = Constant(
                node,
                tensor.dtype,
                tensor.value_index,
                tuple(self.copied(given) for given in operation.inputs),
                tuple(one.name for one in self._waits.get(operation, ())),
                (node.op, *sorted((k, v.SerializeToString()) for k, v in node.attr.items())),
            )
        return self._copied[key]

    def outside(self, tensor: Any) -> Any:
        """Returns a constant of a loop as a tensor outside of the loop."""
        if tensor.op not in self._outside:
            with tf.control_dependencies(None), tf.device(self._place):
                value = tf.make_ndarray(tensor.op.get_attr("value"))
                self._outside[tensor.op] = tf.constant(value, tensor.dtype)
        return self._outside[tensor.op]


def find(
    operations: Sequence[Any], layouts: Layouts, origins: Origins, copied: Container[Any]
) -> Waits:
    """Finds the operations that depend on constants alone.

    Gradients wait for others to bound the memory that a step takes, and so do their constants:
    that of a square's gradient waits for the gradient that it multiplies. A constant of one device
    would wait for all towers there. The copy in a tower waits for that tower alone.

    Args:
        operations: The operations of the graph, in topological order.
        layouts: Their `Layouts`.
        origins: Their `Origins`.
        copied: The operations that towers run.
    """
    found: Waits = {}
    for operation in operations:
        if not all(tensor.op in found for tensor in operation.inputs):
            continue
        if operation in layouts.strategies or not _may_be_constant(operation):
            continue
        waits = tuple(origins.waits(operation))
        if all(one in copied for one in waits):
            found[operation] = waits
    return found


def _may_be_constant(operation: Any) -> bool:
    if not operation.inputs and operation.type != "Const":
        return False
    if op_types.is_stateful(operation) or op_types.calls_functions(operation):
        return False
    if operation.type.startswith(_NOT_CONSTANT) or graph_lib.is_in_control_flow(operation):
        return False
    return _has_few_entries(operation)


def _has_few_entries(operation: Any) -> bool:
    sizes = [tensor.shape.num_elements() for tensor in operation.outputs]
    return bool(sizes) and all(size is not None and size <= _LARGE_COMPUTED for size in sizes)


def _is_small(operation: Any) -> bool:
    """Whether an operation is a small constant without control inputs."""
    if operation.type != "Const" or operation.control_inputs:
        return False
    return (operation.outputs[0].shape.num_elements() or 0) <= _LARGE
