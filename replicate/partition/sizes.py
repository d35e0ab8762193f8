"""Finds operations that formulas replace, because they only give sizes."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import Layouts


def replaced(
    operations: Iterable[Any], layouts: Layouts, control_inputs: Mapping[Any, Sequence[Any]]
) -> list[Any]:
    """Returns operations, with the predecessors of those that formulas replace in their place.

    Operations in a loop never wait for those outside of it, so the search ends there.

    Args:
        operations: The operations.
        layouts: The `Layouts`.
        control_inputs: By operation that has any: the operations that it waits for.
    """
    found: dict[Any, None] = {}
    seen, pending = set(), list(operations)
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.type in graph_lib.ENTER:
            continue
        if one in layouts.sizes:
            pending += [tensor.op for tensor in one.inputs] + list(control_inputs.get(one, ()))
        else:
            found[one] = None
    return list(found)
