"""The result of inference: the layouts of the tensors of a graph."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Counter, Mapping, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.layouts.facts import Facts
from replicate.layouts.layout import SIZE, WHOLE, Indices, Layout, Shard, Size, Strategy


class Source(NamedTuple):
    """A tensor of the batch, whose rows are on `axis`.

    Each row has `per_row` entries there; None if the graph does not know how many. If `layout` is
    given, the tensor is a component of a sparse or ragged tensor; see `sources_of_sparse`.
    """

    tensor: Any
    axis: int
    per_row: int | None = 1
    layout: Layout | None = None


def sources_of_sparse(sparse: tf.SparseTensor, per_row: int) -> list[Source]:
    """Returns the sources of a sparse tensor: its indices, values and shape.

    Args:
        sparse: A tensor of known rank, with its rows on axis 0 and its values in their order.
        per_row: How many entries of axis 0 there are for each row of the batch.
    """
    unit = f"{sparse.values.name}[0]"
    return [
        Source(sparse.indices, 0, None, Indices(unit, each=per_row, is_matrix=True)),
        Source(sparse.values, 0, None, Shard(0, unit)),
        Source(sparse.dense_shape, 0, per_row, SIZE),
    ]


def sources_of_ragged(ragged: tf.RaggedTensor, per_row: int) -> list[Source]:
    """Returns the sources of a ragged tensor: its values and row splits.

    Args:
        ragged: A tensor with one ragged axis, with its rows on axis 0, and values of known rank.
        per_row: How many entries of axis 0 there are for each row of the batch.
    """
    unit = f"{ragged.flat_values.name}[0]"
    return [
        Source(ragged.flat_values, 0, None, Shard(0, unit)),
        Source(ragged.row_splits, 0, per_row, WHOLE),
    ]


def put(source: Source, sources: Sequence[Source], facts: Facts) -> None:
    """Records the shape of a tensor of the batch, one of `sources`, in the facts."""
    layout = source.layout
    if layout is None:
        facts.put(source.tensor, source.axis, source.per_row)
    elif layout == WHOLE:
        facts.put_splits(source.tensor, source.per_row or 1)
    elif isinstance(layout, (Shard, Indices)):
        values = next(one.tensor for one in sources if one.layout == Shard(0, layout.unit))
        facts.put_ragged(source.tensor, str(layout.unit), values)
    else:
        facts.put_shape(source.tensor, source.per_row or 1)


class Layouts:
    """The layouts of the tensors of a graph, as `infer` finds them.

    Attributes:
        facts: The `Facts`.
        sources: The tensors of the batch.
        strategies: By operation that towers run: its `Strategy`.
        kept_whole: By type: how many operations run once although they take tensors of towers.
        sizes: Operations that formulas replace: all of their outputs are integers with formulas.
        refused: By name of a loop that runs once although rows enter: an operation that needs all
            of them, the first one.
    """

    def __init__(
        self,
        facts: Facts,
        sources: tuple[Source, ...],
        strategies: dict[Any, Strategy],
        layouts: dict[Any, Layout],
        kept_whole: Counter[str],
        refused: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.facts = facts
        self.sources = sources
        self.strategies = strategies
        self.kept_whole = kept_whole
        self.refused = refused
        self._layouts = layouts
        sized = {operation for (operation, _), one in layouts.items() if isinstance(one, Size)}
        self.sizes = {one for one in sized if all(self.layout_of(t) == SIZE for t in one.outputs)}

    def changed(self, strategies: dict[Any, Strategy], layouts: dict[Any, Layout]) -> Layouts:
        """Returns these layouts with other strategies, and with other layouts of some tensors."""
        made = {**self._layouts, **layouts}
        return Layouts(self.facts, self.sources, strategies, made, self.kept_whole, self.refused)

    @property
    def by_reference(self) -> Mapping[Any, Layout]:
        """The layouts that are not whole, by references of tensors."""
        return self._layouts

    def layout_of(self, tensor: Any) -> Layout:
        """Returns the layout of a tensor."""
        return self._layouts.get(graph_lib.reference(tensor), WHOLE)
