"""Sources of rows other than the batch: random numbers, fills, and operations that run once."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import ROWS, Monomial
from replicate.layouts.facts import Facts
from replicate.layouts.found import Source
from replicate.layouts.layout import (
    WHOLE,
    Even,
    Indices,
    Layout,
    Own,
    Partial,
    PerTowerLayout,
    Shard,
    Strategy,
    is_shard,
)

# If n is known, other operations may make n entries of something else.
_PASS_ON_ROWS = frozenset(["Cast", "ConcatV2", "EnsureShape", "Identity", "Reshape"])


class Starts:
    """Remembers, in one pass over a graph, the operations that create rows.

    If the graph knows the number of rows, an equal number of random numbers, or of copies of a
    value, may be something else, such as the initial values of a variable. They count as rows if an
    operation in towers combines them, or values made from them, with rows of the batch.

    Args:
        facts: The `Facts` of the graph.
        sources: The tensors of the batch.
    """

    def __init__(self, facts: Facts, sources: Iterable[Source]) -> None:
        self._facts = facts
        # Tensors with rows that are made from rows of the batch.
        self._of_batch = {graph_lib.reference(source.tensor) for source in sources}
        self._begun: set[Any] = set()  # Operations that draw or repeat values.
        self._beside_rows: set[Any] = set()  # Those whose values are combined with rows.
        self._beside_weights: set[Any] = set()  # Those combined with whole values.
        # By tensor that is made from these values alone: the operations that made them.
        self._from: dict[Any, frozenset[Any]] = {}
        self._splits: dict[Any, Shard] = {}  # By whole tensor that towers may split.
        # By operation whose whole results may have rows: whether it may have selected some.
        self._ran_once: dict[Any, bool] = {}

    def copy(self, facts: Facts) -> Starts:
        """Returns independent `Starts` in the same state, with a copy of the `Facts`."""
        other = Starts(facts, ())
        other._of_batch, other._begun = set(self._of_batch), set(self._begun)
        other._beside_rows = set(self._beside_rows)
        other._beside_weights = set(self._beside_weights)
        other._from, other._splits = dict(self._from), dict(self._splits)
        other._ran_once = dict(self._ran_once)
        return other

    @property
    def idle(self) -> set[Any]:
        """Operations whose values are not combined with rows of the batch."""
        return self._begun - self._beside_rows

    def begin(self, operation: Any) -> None:
        """Records an operation that draws or repeats values in towers."""
        # An unknown n in the shape leaves no doubt that they are rows.
        if isinstance(self._facts.rows, int):
            self._begun.add(operation)
            for tensor in operation.outputs:
                self._from[graph_lib.reference(tensor)] = frozenset([operation])

    def follow(self, operation: Any, layouts: Sequence[Layout], strategy: Strategy) -> None:
        """Records an operation in towers, with the layouts of its inputs and its strategy."""
        if not isinstance(self._facts.rows, int):
            return  # No doubts; see `begin`.
        rows: list[Any] = []
        partials: list[Any] = []
        is_weight = is_of_batch = False
        for tensor, layout, demand in zip(operation.inputs, layouts, strategy.inputs):
            key = graph_lib.reference(tensor)
            # A whole value, or a repeated one, may have as many entries as there are rows.
            is_weight |= layout == WHOLE and isinstance(demand, Shard)
            is_weight |= is_shard(layout) and demand == WHOLE
            is_of_batch |= isinstance(layout, PerTowerLayout)
            # Values that are joined first, such as a masked weight for a product with rows, are not
            # combined row by row.
            is_along = layout == demand or isinstance(layout, Indices) or isinstance(demand, Own)
            if is_shard(layout) and is_along:
                rows.append(key)
                is_of_batch |= key in self._of_batch
                is_weight |= key not in self._of_batch and key not in self._from
            elif isinstance(layout, Partial) and layout == demand:
                partials.append(key)
        made = [self._from.get(key, frozenset()) for key in (*rows, *partials)]
        found: frozenset[Any] = frozenset().union(*made)
        if is_weight:
            self._beside_weights |= found
        if is_of_batch:
            # Another input has rows of the batch, so these values are rows as well.
            self._beside_rows |= found
            self._are_of_batch(operation.outputs, strategy.outputs)
        elif any(key not in self._from for key in partials):
            # Losses are added up, which come from noise for rows, or from a weight with noise.
            self._beside_rows |= found - self._beside_weights
        elif found:
            for tensor in operation.outputs:
                self._from[graph_lib.reference(tensor)] = found

    def leave(self, loop: Sequence[Any], layouts: Mapping[Any, Layout]) -> None:
        """Records a loop in towers, with the layouts of its tensors."""
        entered = {
            graph_lib.reference(one.inputs[0]) for one in loop if one.type in graph_lib.ENTER
        }
        if not self._of_batch.isdisjoint(entered):
            self._of_batch |= {key for key, layout in layouts.items() if is_shard(layout)}

    def _are_of_batch(self, tensors: Sequence[Any], layouts: Sequence[Layout]) -> None:
        for tensor, layout in zip(tensors, layouts):
            if is_shard(layout):
                self._of_batch.add(graph_lib.reference(tensor))

    def may_split(self, operation: Any, has_rows: bool) -> None:
        """Records outputs of an operation that runs once which towers may split.

        Args:
            operation: The operation.
            has_rows: Whether it takes rows, so that it may have selected some of them.
        """
        self._ran_once[operation] = has_rows
        for tensor in operation.outputs:
            found = self._found(tensor, has_rows)
            if found is not None:
                self._splits[graph_lib.reference(tensor)] = found

    def _found(self, tensor: Any, has_rows: bool) -> Shard | None:
        """Returns how towers may split a whole tensor, None if they cannot."""
        dims, rows = self._facts.dims(tensor), self._facts.rows
        if not dims or dims_lib.is_of_loop(dims[0]):
            return None
        if dims[0] == rows or (has_rows and dims_lib.over(dims[0], rows)):
            return Shard(0)
        if dims_lib.name_of(dims[0]) in self._facts.ragged:
            return Shard(0, dims_lib.name_of(dims[0]))
        other = Shard(dims.index(rows)) if rows in dims else None
        if other is not None and not isinstance(rows, int):
            return other
        # If n is known, another axis may have that size by chance. A few entries are not worth
        # sharing.
        is_enough = isinstance(dims[0], Monomial) or self._facts.is_enough(dims[0])
        return Shard(0, Even(dims[0])) if has_rows and is_enough else other

    def may_split_later(self, operation: Any, strategy: Strategy) -> None:
        """Records outputs of an operation that runs once although towers could run it."""
        for tensor, layout in zip(operation.outputs, strategy.outputs):
            if isinstance(layout, Shard):
                self._splits[graph_lib.reference(tensor)] = layout

    def wait_for_products(self, operation: Any, shards: Sequence[Shard | None]) -> bool:
        """Whether towers share inputs of an operation, as `shards`, only if it multiplies them.

        They share n entries at once. Others may meet no rows, and be joined again.
        """
        pairs = zip(operation.inputs, shards)
        return any(one is not None and not self._is_one_each(given, one) for given, one in pairs)

    def _is_one_each(self, tensor: Any, shard: Shard) -> bool:
        """Whether the first axis of a tensor has one entry for each row, or of a ragged unit."""
        dims, (axis, unit, _) = self._facts.dims(tensor), shard
        return bool(
            dims and not axis and isinstance(unit, str) and dims[0] == self._facts.count(unit)
        )

    def pass_on(self, operation: Any, always: bool) -> None:
        """Records outputs of an operation of whole inputs, if it may give rows made by another."""
        is_sure = not isinstance(self._facts.rows, int) or operation.type in _PASS_ON_ROWS
        before = [given.op for given in operation.inputs if given.op in self._ran_once]
        if always or (is_sure and before):
            self.may_split(operation, always or any(self._ran_once[one] for one in before))

    def row_shard_of(self, tensor: Any) -> Shard | None:
        """Returns on which axis towers may split the rows of a whole tensor, None if on none."""
        found = self._splits.get(graph_lib.reference(tensor))
        return found if found is not None and found.unit == ROWS else None

    def are_split(self, operation: Any) -> list[Shard | None]:
        """Returns for each input of an operation how towers split it, or None."""
        if not self._splits:
            return [None] * len(operation.inputs)
        found = [self._splits.get(graph_lib.reference(tensor)) for tensor in operation.inputs]
        made = [one for one in found if one is not None]
        first = [one for one in made if isinstance(one.unit, str)] or made
        return [one if one is not None and one.unit == first[0].unit else None for one in found]
