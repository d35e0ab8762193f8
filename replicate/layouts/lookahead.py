"""Tells, from the graph alone, whether values made without rows may be combined with rows.

Inference lets towers draw random numbers, or repeat a value, if the given shape has as many rows as
the batch. If it finds at its end that no rows are combined with these values, it has to step back.
So most of them are recognised in advance: initial values of variables, for example, or a vector of
ones that a loss sums to count its rows.
"""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from replicate.layouts.dims import Dim

# Their outputs tell the size of an input, but have none of its rows.
_SIZES = frozenset(["Shape", "ShapeN", "Size", "Rank"])


class Lookahead:
    """Finds operations whose values may be combined with rows of the batch.

    Args:
        operations: The operations of a graph, in topological order.
        given: Operations that give the tensors of the batch.
        rows: n, an integer if the graph knows it.
    """

    def __init__(self, operations: Sequence[Any], given: Iterable[Any], rows: Dim) -> None:
        self._operations = operations
        self._given = given
        self._rows = rows
        self._after_rows: set[Any] | None = None

    def may_meet_rows(self, operation: Any) -> bool:
        """Whether outputs of an operation may be combined with rows, directly or after others."""
        if not isinstance(self._rows, int):
            return True  # A shape with an unknown n can only be that of rows.
        if self._after_rows is None:
            self._after_rows = self._find_after_rows()
        pending = [tensor for tensor in operation.outputs if self._has_rows(tensor)]
        seen = {operation}
        while pending:
            for taker in pending.pop().consumers():
                if taker in self._after_rows:
                    return True
                # Inference does not follow values into loops, so these are not in towers there.
                if taker not in seen and taker.type != "Enter":
                    seen.add(taker)
                    pending += [tensor for tensor in taker.outputs if self._has_rows(tensor)]
        return False

    def _find_after_rows(self) -> set[Any]:
        found = set(self._given)
        for operation in self._operations:
            if operation.type not in _SIZES and any(t.op in found for t in operation.inputs):
                found.add(operation)
        return found

    def _has_rows(self, tensor: Any) -> bool:
        """Whether an axis may have the rows of the batch, or some entries for each of them."""
        if tensor.shape.rank is None:
            return True
        sizes, rows = tensor.shape.as_list(), self._rows
        return any(size is None or (rows and size and not size % rows) for size in sizes)
