"""Finds all operations that run when some do, and all that are made of what some give."""

from __future__ import annotations

from typing import Any, Callable, Iterable

from replicate.compat import graph as graph_lib


def ancestors(operations: Iterable[Any], waits: bool = True) -> set[Any]:
    """Returns the set of operations that run when `operations` are fetched, themselves included.

    Args:
        operations: Operations, or tensors.
        waits: Whether what is only waited for counts, too.
    """

    def before(op: Any) -> list[Any]:
        return [tensor.op for tensor in op.inputs] + (op.control_inputs if waits else [])

    return _reached((getattr(operation, "op", operation) for operation in operations), before)


def descendants(operations: Iterable[Any], waits: bool = True) -> set[Any]:
    """Returns the set of operations that some lead to, themselves included.

    Args:
        operations: Operations.
        waits: Whether what only waits for them counts, too.
    """
    return _reached(operations, lambda op: takers(op, waits))


def takers(op: Any, waits: bool = True) -> list[Any]:
    """Returns the operations that take what an operation gives, or wait for it."""
    found = [taker for tensor in op.outputs for taker in tensor.consumers()]
    return found + graph_lib.control_outputs(op) if waits else found


def _reached(operations: Iterable[Any], next_to: Callable[[Any], list[Any]]) -> set[Any]:
    pending = list(operations)
    seen = set(pending)
    while pending:
        for op in next_to(pending.pop()):
            if op not in seen:
                seen.add(op)
                pending.append(op)
    return seen
