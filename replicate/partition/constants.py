"""Constants that each tower computes for itself, instead of receiving them from a device."""

from __future__ import annotations

from typing import Any, Callable, Container, Dict, NamedTuple, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types, partitioning
from replicate.layouts import MADE_OUTSIDE, Facts, Layouts
from replicate.partition.origins import Origins

# Constants with more entries are sent across devices; so are results of operations on constants
# that have, or take, more entries than the second number.
_LARGE, _LARGE_COMPUTED = 2**16, 2**10
# At most so many operations in a row are repeated in each tower. A loss of a thousand terms, added
# up one by one, has a chain of constants as long.
_LONGEST_CHAIN = 64
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
        key: Equal for constants that one operation can compute.
    """

    node: Any
    dtype: Any
    output: int
    inputs: tuple[Constant, ...]
    waits: tuple[str, ...]
    key: int


class Constants:
    """Reads each constant once, for all operations that take it.

    Args:
        place: Device string of constants that are not copied.
        waits: Those operations of the graph that `find` has found.
        layouts: The `Layouts` of the graph.
    """

    def __init__(self, place: str, waits: Waits, layouts: Layouts) -> None:
        self._place = place
        self._waits = waits
        self._facts = layouts.facts
        self._batch = {graph_lib.reference(source.tensor) for source in layouts.sources}
        self._copied: dict[Any, Constant] = {}
        self._keys: dict[Any, int] = {}
        self._outside: dict[Any, Any] = {}

    def known(self, tensor: Any) -> np.ndarray[Any, Any] | Constant | None:
        """Returns the constant that each tower has in place of a whole tensor, None if it is sent.

        It is the same for all towers.
        """
        if graph_lib.reference(tensor) in self._batch:
            return None  # Towers have shards of it, even if it is a constant.
        axes = _known_axes(tensor, self._facts)
        if axes is not None:
            return axes
        is_copied = tensor.op in self._waits or _is_small(tensor.op)
        return self._copy(tensor) if is_copied else None

    def instead_of(self, tensor: Any) -> Any:
        """Returns `known(tensor)`, or the tensor itself if it is sent."""
        known = self.known(tensor)
        return tensor if known is None else known

    def _copy(self, tensor: Any) -> Constant:
        """Returns the `Constant` by which each tower computes a tensor."""
        key = graph_lib.reference(tensor)
        if key not in self._copied:
            operation = tensor.op
            node = partitioning.unplaced(operation.node_def)
            inputs = tuple(self._copy(given) for given in operation.inputs)
            waits = tuple(one.name for one in self._waits.get(operation, ()))
            attrs = sorted((k, v.SerializeToString()) for k, v in node.attr.items())
            same = node.op, *attrs, waits, *((one.key, one.output) for one in inputs)
            number = self._keys.setdefault(same, len(self._keys))
            self._copied[key] = Constant(
                node, tensor.dtype, tensor.value_index, inputs, waits, number
            )
        return self._copied[key]

    def outside(self, tensor: Any, size: Callable[[Any], Any]) -> Any:
        """Returns a constant or range of a loop as a tensor outside of the loop.

        Args:
            tensor: The output of the `Const` or `Range`.
            size: Function of a tensor that returns its integers, which follow from sizes.
        """
        if tensor.op not in self._outside:
            with tf.control_dependencies(None), tf.device(self._place):
                if tensor.op.type == "Range":
                    made = tf.range(*map(size, tensor.op.inputs))
                else:
                    made = tf.constant(tf.make_ndarray(tensor.op.get_attr("value")), tensor.dtype)
            self._outside[tensor.op] = made
        return self._outside[tensor.op]


def is_made_outside(operation: Any) -> bool:
    """Whether an operation in a loop is a constant or range, which can be made outside of it."""
    return operation.type in MADE_OUTSIDE and graph_lib.in_while_loop(operation)


def find(
    operations: Sequence[Any], layouts: Layouts, origins: Origins, copied: Container[Any]
) -> Waits:
    """Finds the operations that depend on constants alone.

    To bound the memory of a step, TensorFlow lets gradients wait for others, with the constants in
    them: the 2 in a square's gradient waits for the gradient that it multiplies. The original
    constant would wait for all towers. Its copy in a tower waits for that tower alone.

    Args:
        operations: The operations of the graph, in topological order.
        layouts: Their `Layouts`.
        origins: Their `Origins`.
        copied: The operations that towers run.
    """
    found: Waits = {}
    lengths: dict[Any, int] = {}
    for operation in operations:
        before = [lengths.get(tensor.op, _LONGEST_CHAIN) for tensor in operation.inputs]
        if max(before, default=0) >= _LONGEST_CHAIN:
            continue  # An input is no constant, or made by too many operations.
        if operation in layouts.strategies or not _may_be_constant(operation, layouts):
            continue
        waits = _waits(operation, origins, copied)
        if all(one in copied for one in waits):
            found[operation] = waits
            lengths[operation] = 1 + max(before, default=0)
    return found


def _waits(operation: Any, origins: Origins, copied: Container[Any]) -> tuple[Any, ...]:
    """Returns the operations that one waits for; a `NoOp` without copies is replaced by its own.

    For example, a quotient has two gradients. One may be a constant, which waits for the other one
    through a `NoOp`.
    """
    found: dict[Any, None] = {}
    for one in origins.waits(operation):
        if one.type == "NoOp" and one not in copied:
            found.update(dict.fromkeys(_waits(one, origins, copied)))
        else:
            found[one] = None
    return tuple(found)


def _may_be_constant(operation: Any, layouts: Layouts) -> bool:
    if not operation.inputs and operation.type != "Const":
        return False
    if op_types.is_stateful(operation) or op_types.calls_functions(operation):
        return False
    if operation.type.startswith(_NOT_CONSTANT) or graph_lib.is_in_control_flow(operation):
        return False
    return bool(operation.outputs) and all(_is_few(one, layouts) for one in operation.outputs)


def _is_few(tensor: Any, layouts: Layouts) -> bool:
    """Whether a tensor is known to have few entries, by its static shape or by its value."""
    size = tensor.shape.num_elements()
    if size is None:  # For example of axes to sum over.
        value = layouts.facts.value(tensor)
        size = None if value is None else value.size
    return size is not None and size <= _LARGE_COMPUTED


def _known_axes(tensor: Any, facts: Facts) -> np.ndarray[Any, Any] | None:
    """Returns the axes over which a gradient is summed, as rules know them; None for others.

    Where two sizes are equal by chance, such as one positive and one row, the operation names fewer
    axes. The sizes of a tower may differ there.
    """
    if tensor.op.type != "BroadcastGradientArgs":
        return None
    axes = facts.value(tensor)
    return None if axes is None else axes.astype(tensor.dtype.as_numpy_dtype)


def _is_small(operation: Any) -> bool:
    """Whether an operation is a small constant without control inputs."""
    if operation.type != "Const" or operation.control_inputs:
        return False
    return (operation.outputs[0].shape.num_elements() or 0) <= _LARGE
