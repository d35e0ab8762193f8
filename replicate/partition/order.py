"""Sorts operations so that each follows all that it takes and waits for.

That is the order in which they are made, but for graphs that `model_fn` changes afterwards:
quantisation, for one, inserts operations between those that are there.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence


def in_order(operations: Sequence[Any]) -> list[Any]:
    """Returns operations in an order in which each follows what leads to it.

    Those that are in such an order stay as they are. What leads back to where a loop begins is
    left out of account.

    Args:
        operations: The operations, in the order in which they were made.
    """
    there = set(operations)
    done: set[Any] = set()
    found: list[Any] = []
    for start in operations:
        if start in done:
            continue
        done.add(start)
        path = [(start, _before(start))]
        while path:
            operation, before = path[-1]
            following = next((one for one in before if one in there and one not in done), None)
            if following is None:
                found.append(operation)
                path.pop()
            else:
                done.add(following)
                path.append((following, _before(following)))
    return found


def _before(operation: Any) -> Iterator[Any]:
    """Yields what leads to an operation."""
    for tensor in operation.inputs:
        if tensor.op.type not in ("NextIteration", "RefNextIteration"):
            yield tensor.op
    yield from operation.control_inputs
