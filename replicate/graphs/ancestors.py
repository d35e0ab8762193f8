"""Finds all operations that run when some do."""

from __future__ import annotations

from typing import Any, Iterable


def ancestors(operations: Iterable[Any]) -> set[Any]:
    """Returns the set of operations that run when `operations` are fetched, themselves included.

    Args:
        operations: Operations, or tensors.
    """
    pending = [getattr(operation, "op", operation) for operation in operations]
    seen = set(pending)
    while pending:
        op = pending.pop()
        for before in [tensor.op for tensor in op.inputs] + op.control_inputs:
            if before not in seen:
                seen.add(before)
                pending.append(before)
    return seen
