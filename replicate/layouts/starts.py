"""Where towers get rows from, besides the batch: random numbers, and results of what runs once."""

from __future__ import annotations

from typing import Any

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import ROWS
from replicate.layouts.facts import Facts
from replicate.layouts.layout import SIZE, WHOLE, Layout


class Starts:
    """Remembers, in one pass over a graph, what starts rows by itself.

    Where the graph knows the number of rows, as many random numbers may be no rows at all, such as
    those that a variable starts with. They are if an operation in towers takes them, or what is
    made of them, with rows of the batch.

    Args:
        facts: The `Facts` of the graph.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._drawn: set[Any] = set()  # Operations that draw random numbers.
        self._beside_rows: set[Any] = set()  # Of these: what meets rows of the batch.
        self._from: dict[Any, frozenset[Any]] = {}  # By tensor that no row enters: its starts.
        # By whole tensor of rows, or of what they have: which. Towers may go on with it.
        self._splits: dict[Any, str] = {}

    def copy(self, facts: Facts) -> Starts:
        """Returns others that know as much, with a copy of the `Facts`."""
        other = Starts(facts)
        other._drawn, other._beside_rows = set(self._drawn), set(self._beside_rows)
        other._from, other._splits = dict(self._from), dict(self._splits)
        return other

    @property
    def idle(self) -> set[Any]:
        """Operations that draw random numbers which meet no rows of the batch."""
        return self._drawn - self._beside_rows

    def draw(self, operation: Any) -> None:
        """Takes note of an operation that draws random numbers in towers."""
        if isinstance(self._facts.rows, int):
            self._drawn.add(operation)
            for tensor in operation.outputs:
                self._from[graph_lib.reference(tensor)] = frozenset([operation])

    def follow(self, operation: Any, layouts: list[Layout]) -> None:
        """Takes note of an operation in towers that takes inputs of these layouts."""
        keys = [graph_lib.reference(tensor) for tensor in operation.inputs]
        given = [key for key, one in zip(keys, layouts) if one not in (WHOLE, SIZE)]
        found = frozenset().union(*(self._from.get(key, frozenset()) for key in given))
        if not self._splits.keys().isdisjoint(keys) or any(key not in self._from for key in given):
            self._beside_rows |= found
        elif found:
            for tensor in operation.outputs:
                self._from[graph_lib.reference(tensor)] = found

    def may_split(self, operation: Any) -> None:
        """Takes note of the results of an operation that runs once that have the batch's rows."""
        for tensor in operation.outputs:
            dims = self._facts.dims(tensor)
            key = graph_lib.reference(tensor)
            if dims and dims[0] == self._facts.rows:
                self._splits[key] = ROWS
            elif dims and dims_lib.name_of(dims[0]) in self._facts.ragged:
                self._splits[key] = dims_lib.name_of(dims[0])

    def are_split(self, operation: Any) -> list[str | None]:
        """Returns of each input of an operation by what towers may split it, None if not at all."""
        if not self._splits:
            return [None] * len(operation.inputs)
        return [self._splits.get(graph_lib.reference(tensor)) for tensor in operation.inputs]
