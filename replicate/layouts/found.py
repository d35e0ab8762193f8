"""The result of inference: the layouts of the tensors of a graph."""

from __future__ import annotations

from typing import Any, Counter, NamedTuple

from replicate.compat import graph as graph_lib
from replicate.layouts.facts import Facts
from replicate.layouts.layout import WHOLE, Layout, Strategy


class Source(NamedTuple):
    """A tensor of the batch, whose rows are on `axis`.

    Each row has `per_row` entries there; None if the graph does not know how many.
    """

    tensor: Any
    axis: int
    per_row: int | None = 1


class Layouts:
    """The layouts of the tensors of a graph, as `infer` finds them.

    Attributes:
        facts: The `Facts`.
        sources: The tensors of the batch.
        strategies: By operation that towers run: its `Strategy`.
        kept_whole: Of each type of operation that takes what towers have and runs once: how many.
    """

    def __init__(
        self,
        facts: Facts,
        sources: tuple[Source, ...],
        strategies: dict[Any, Strategy],
        layouts: dict[Any, Layout],
        kept_whole: Counter[str],
    ) -> None:
        self.facts = facts
        self.sources = sources
        self.strategies = strategies
        self.kept_whole = kept_whole
        self._layouts = layouts

    def changed(self, strategies: dict[Any, Strategy], layouts: dict[Any, Layout]) -> Layouts:
        """Returns these layouts with other strategies, and with some of tensors instead."""
        made = {**self._layouts, **layouts}
        return Layouts(self.facts, self.sources, strategies, made, self.kept_whole)

    def of(self, tensor: Any) -> Layout:
        """Returns the layout of a tensor."""
        return self._layouts.get(graph_lib.reference(tensor), WHOLE)
