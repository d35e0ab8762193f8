"""Finds operations that formulas replace, because they only give sizes."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import Layouts
from replicate.partition import branch_bits


def replaced(
    operations: Iterable[Any],
    layouts: Layouts,
    control_inputs: Mapping[Any, Sequence[Any]],
    pivots: Mapping[Any, Any],
    tensors: Iterable[Any] = (),
) -> list[Any]:
    """Returns operations, with the predecessors of those that formulas replace in their place.

    Operations in a loop never wait for those outside of it, so the search ends there.

    Args:
        operations: The operations.
        layouts: The `Layouts`.
        control_inputs: By operation that has any: the operations that it waits for.
        pivots: See `branch_bits.pivots`. A `Switch` is never dead, only its outputs are. So where
            the search comes to one of these, the pivot of its branch is returned, too.
        tensors: Tensors whose operations are searched as well.
    """
    found: dict[Any, None] = {}
    seen, pending = set(), list(operations)

    def follow(taken: Iterable[Any]) -> None:
        for tensor in taken:
            pivot = pivots.get(branch_bits.branch(tensor))
            if pivot is not None:
                found[pivot] = None
            pending.append(tensor.op)

    follow(tensors)
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.type in graph_lib.ENTER:
            continue
        if one in layouts.sizes:
            follow(one.inputs)
            pending += control_inputs.get(one, ())
        else:
            found[one] = None
    return list(found)
