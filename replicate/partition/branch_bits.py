"""Tells in which branches of conditions operations run, for conditions of TensorFlow 1."""

from __future__ import annotations

from typing import Any, Callable, Hashable, Sequence

from replicate.compat import graph as graph_lib

_SWITCHES = "RefSwitch", "Switch"


def branch(tensor: Any) -> Hashable:
    """Returns a key of the branch that a `Switch` gives a tensor to; None of other tensors."""
    return _key(tensor.op.inputs[1], tensor.value_index) if tensor.op.type in _SWITCHES else None


def _key(predicate: Any, index: int) -> Hashable:
    # `tf.cond` has two of one value.
    while predicate.op.type == "Identity":
        given = predicate.op.inputs[0]
        if given.dtype != predicate.dtype:
            break  # It reads a reference variable, which may have changed in between.
        predicate = given
    return graph_lib.reference(predicate), index


def pivots(operations: Sequence[Any]) -> dict[Hashable, Any]:
    """Returns, by `branch`, an operation that runs if the branch is taken and is dead otherwise.

    Conditions have one in each branch: the identity of the predicate that it is given. If that is a
    variable, it is read more than once, and only TensorFlow's context of the branch knows which
    identity belongs to it.
    """
    found: dict[Hashable, Any] = {}
    for operation in operations:
        for predicate, index, pivot in graph_lib.branches_around(operation):
            found.setdefault(_key(predicate, index), pivot)
        if operation.type != "Identity" or operation.inputs[0].op.type not in _SWITCHES:
            continue
        given, predicate = map(graph_lib.reference, operation.inputs[0].op.inputs)
        if given == predicate:
            found.setdefault(branch(operation.inputs[0]), operation)
    return found


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
        return around | self._bits.setdefault(branch(tensor), 1 << len(self._bits))

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
    is_switch = operation.type in _SWITCHES
    return is_switch and not graph_lib.in_while_loop(operation)
