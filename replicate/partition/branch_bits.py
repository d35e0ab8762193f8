"""Tells in which branches of conditions operations run, for conditions of TensorFlow 1."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from replicate.compat import graph as graph_lib


class Branches:
    """The branches of a graph. A set of them is an integer with one bit for each.

    Args:
        operations: The operations of the graph.

    Attributes:
        are_there: Whether there are any.
    """

    def __init__(self, operations: Sequence[Any]) -> None:
        # The switches of loops are not counted: what waits in a round is kept anyway.
        self.are_there = any(map(_begins_branches, operations))
        self._bits: dict[Any, int] = {}

    def of(self, tensor: Any, around: int) -> int:
        """Returns the branches in which a tensor is computed; `around` are those of its maker."""
        if not self.are_there or not _begins_branches(tensor.op):
            return around
        key = graph_lib.reference(tensor.op.inputs[1]), tensor.value_index
        return around | self._bits.setdefault(key, 1 << len(self._bits))

    def within(
        self, operation: Any, control_inputs: Sequence[Any], around: Callable[[Any], int]
    ) -> int:
        """Returns the branches in which an operation runs.

        Args:
            operation: The operation.
            control_inputs: Its control inputs.
            around: Function of an earlier operation that returns the branches in which it runs.
        """
        if not self.are_there:
            return 0
        given = [self.of(tensor, around(tensor.op)) for tensor in operation.inputs]
        is_merge = operation.type in ("Merge", "RefMerge")
        if is_merge and graph_lib.in_while_loop(operation):
            given = given[:1]  # The value with which a loop begins.
        # A `Merge` needs one of its inputs, other operations all of them.
        found = given[0] if given else 0
        for other in given[1:]:
            found = found & other if is_merge else found | other
        for one in control_inputs:
            found |= around(one)
        return found


def _begins_branches(operation: Any) -> bool:
    """Whether an operation is the `Switch` of a condition outside of loops."""
    is_switch = operation.type in ("RefSwitch", "Switch")
    return is_switch and not graph_lib.in_while_loop(operation)
