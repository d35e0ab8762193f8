"""Recognises the variables of a loop of TensorFlow 1.

A `Merge` stands for each of them: it takes the first value from an `Enter`, and that of the next
round from a `NextIteration`.
"""

from __future__ import annotations

from typing import Any, Collection, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts.facts import Facts


def enter_of(tensor: Any, ends: Any, inside: Collection[Any]) -> Any:
    """Returns the `Enter` of a variable that an operation updates, None if a tensor is none.

    Args:
        tensor: The tensor, perhaps the variable during a round.
        ends: The operation whose only output would be the variable at the end of the round.
        inside: The operations of the loop.
    """
    if tensor.op.type == "Switch":
        tensor = tensor.op.inputs[0]
    if tensor.op.type != "Merge" or not is_variable(tensor.op):
        return None
    enter, back = (given.op for given in tensor.op.inputs)
    if back.type != "NextIteration" or back.inputs[0].op is not ends or enter.type != "Enter":
        return None
    takers = ends.outputs[0].consumers()
    # An `Enter` of an inner loop begins with a value of a round, so with another one each time.
    return enter if enter.inputs[0].op not in inside and takers == [back] else None


def is_variable(operation: Any) -> bool:
    """Whether a `Merge` is a variable of a loop, and does not join the branches of a condition."""
    return any(tensor.op.type == "NextIteration" for tensor in operation.inputs)


def varying(operations: Sequence[Any], facts: Facts) -> set[tuple[Any, int]]:
    """Returns variables of loops whose shape a round changes, as references, each with an axis."""
    found: set[tuple[Any, int]] = set()
    for operation in operations:
        if operation.type != "Merge" or not is_variable(operation):
            continue
        tensor = operation.outputs[0]
        begins = facts.dims(tensor)
        ends = facts.dims(operation.inputs[1])
        for axis, size in enumerate(begins or ()):
            is_fixed = tensor.shape.rank is not None and tensor.shape.as_list()[axis] is not None
            same = ends is not None and len(ends) == len(begins or ()) and ends[axis] == size
            if not is_fixed and not same:
                found.add((graph_lib.reference(tensor), axis))
    return found
