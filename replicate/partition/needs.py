"""Follows needed tensors back to the batch, to find operations to copy and tensors to join."""

from __future__ import annotations

from typing import Any

from replicate.compat import graph as graph_lib
from replicate.layouts import (
    PER_TOWER,
    ROWS,
    SIZE,
    WHOLE,
    Blocks,
    Even,
    Indices,
    Layouts,
    Monomial,
    Own,
    Partial,
    Share,
    adds_offset,
)
from replicate.layouts import dims as dims_lib
from replicate.partition import means, rounds
from replicate.partition.origins import Origins


class Needs:
    """Collects the operations that towers run, and the tensors that are reduced or concatenated.

    Args:
        layouts: The `Layouts`.
        origins: The `Origins`.

    Attributes:
        copied: Operations that towers run.
        met: References of tensors that are reduced or concatenated.
    """

    def __init__(self, layouts: Layouts, origins: Origins) -> None:
        self._layouts = layouts
        self._origins = origins
        self._sources = {graph_lib.reference(source.tensor) for source in layouts.sources}
        self._pending: list[Any] = []
        self.copied: set[Any] = set()
        self.met: set[Any] = set()

    def whole(self, tensor: Any) -> None:
        """Records that a tensor is needed whole."""
        layout, key = self._layouts.layout_of(tensor), graph_lib.reference(tensor)
        if layout == SIZE:
            self._formula(tensor)  # Computed from sizes, not from the tensor's inputs.
        # The whole value of a source is the batch itself, as `input_fn` made it.
        elif self._is_of_towers(tensor) and key not in self._sources:
            if layout != PER_TOWER:  # These cannot be joined; each tower's is used by itself.
                self.met.add(key)
            # Ragged shards are joined by their sizes, and indices need the offsets of towers.
            self._count(layout)
            if isinstance(layout, Indices):
                self._points(tensor, layout)
            if isinstance(layout, Partial):
                self._size(means.entries_of(tensor, self._layouts))
            self.copy(tensor.op)

    def follow(self) -> None:
        """Finds everything that leads to needed operations."""
        while self._pending:
            operation = self._pending.pop()
            strategy = self._layouts.strategies[operation]
            for tensor, demand in zip(operation.inputs, strategy.inputs):
                layout = self._layouts.layout_of(tensor)
                # The common case: another copy gives the input as it is demanded.
                if layout == demand and layout not in (WHOLE, SIZE):
                    if graph_lib.reference(tensor) not in self._sources:
                        self.copy(tensor.op)
                    continue
                if layout != demand:
                    self._count(demand)  # It will be split by the sizes of that unit.
                if isinstance(demand, Own):
                    self._size(demand.each)
                if rounds.meets(tensor, operation, self._layouts):
                    self.copy(tensor.op)
                elif isinstance(demand, Share) or not self._is_of_towers(tensor):
                    self._formula(tensor)
                elif adds_offset(layout, demand):
                    self._points(tensor, layout)
                elif layout != demand:
                    self.whole(tensor)
                else:
                    self.copy(tensor.op)  # Whole, but computed in each tower, as in loops.
            for before in self._origins.waits(operation) + self._origins.dead_with(operation):
                if before in self._layouts.strategies:
                    self.copy(before)

    def _is_of_towers(self, tensor: Any) -> bool:
        """Whether towers compute a tensor: each its own value, or all the same."""
        layout = self._layouts.layout_of(tensor)
        return layout not in (WHOLE, SIZE) or tensor.op in self._layouts.strategies

    def copy(self, operation: Any) -> None:
        """Records an operation that towers run."""
        if operation not in self.copied:
            self.copied.add(operation)
            self._pending.append(operation)

    def _formula(self, tensor: Any) -> None:
        """Records the tensors whose sizes are used by a tensor's formula."""
        value = self._layouts.facts.value(tensor)
        for entry in () if value is None else value.flat:
            self._size(entry)

    def _size(self, size: Any) -> None:
        for name in size.symbols if isinstance(size, Monomial) else ():
            self._measured(name)

    def _measured(self, name: str) -> None:
        # The number of rows is known to the towers in any case.
        if not dims_lib.is_rows(name):
            measured = self._layouts.facts.symbols[name].tensor
            # Otherwise the original runs once, and its size can be read there.
            if measured.op in self._layouts.strategies:
                self.copy(measured.op)

    def _count(self, layout: Any) -> None:
        """Records the tensor whose size gives the towers' shares of the unit of a layout."""
        unit = getattr(layout, "unit", ROWS)
        if isinstance(unit, Blocks):
            self._size(unit.many)
        elif isinstance(unit, Even):
            self._size(unit.size)
        elif unit != ROWS:
            self._measured(unit)

    def _points(self, tensor: Any, layout: Any) -> None:
        """Records indices of towers, and the tensors that are needed for their offsets."""
        if isinstance(layout, Indices):
            self._measured(layout.within)
            self._size(layout.each)
        if graph_lib.reference(tensor) not in self._sources:
            self.copy(tensor.op)
