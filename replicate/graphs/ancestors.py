"""Finds all operations that lead to some operations, or follow from them."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Sequence

from replicate.compat import graph as graph_lib


def ancestors(
    operations: Iterable[Any], waits: bool = True, known: dict[Any, list[Any]] | None = None
) -> set[Any]:
    """Returns the set of operations that run if `operations` are fetched, including these.

    Args:
        operations: Operations, or tensors.
        waits: Whether to follow control dependencies as well.
        known: Dict that keeps the predecessors of operations, for further calls with the same
            `waits` on an unchanged graph. TensorFlow makes new lists of them each time.
    """
    known = {} if known is None else known
    pending = [getattr(operation, "op", operation) for operation in operations]
    seen = set(pending)
    while pending:
        op = pending.pop()
        found = known.get(op)
        if found is None:
            found = [tensor.op for tensor in op.inputs]
            if waits:
                found += op.control_inputs
            known[op] = found
        for one in found:
            if one not in seen:
                seen.add(one)
                pending.append(one)
    return seen


def descendants(operations: Iterable[Any], waits: bool = True) -> set[Any]:
    """Returns the set of operations that follow from some operations, including these.

    Args:
        operations: Operations.
        waits: Whether to follow control dependencies as well.
    """
    return _reached(operations, lambda op: takers(op, waits))


def followers(operations: Iterable[Any], known: Mapping[Any, Sequence[Any]]) -> set[Any]:
    """Returns the operations that follow from some, like `descendants`, among known ones.

    To ask TensorFlow for an operation's takers is slow.

    Args:
        operations: Operations.
        known: The predecessors of operations, as `ancestors` keeps them.
    """
    taking: dict[Any, list[Any]] = {}
    for operation, others in known.items():
        for other in others:
            taking.setdefault(other, []).append(operation)
    return _reached(operations, lambda op: taking.get(op, []))


def takers(op: Any, waits: bool = True) -> list[Any]:
    """Returns the operations that take an operation's outputs or, with `waits`, wait for it."""
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
