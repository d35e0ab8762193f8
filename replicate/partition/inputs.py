"""Finds the inputs of the towers' copies: shards, shares of shapes, and whole values.

A copy may take a whole value that is yet to be reduced from other copies. Then it takes a stand-in,
which is connected once all copies exist.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence, Tuple, Union

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning
from replicate.layouts import (
    ROWS,
    SIZE,
    WHOLE,
    Dim,
    Even,
    Grown,
    Indices,
    Layouts,
    Measure,
    Own,
    Partial,
    Shard,
    Share,
    adds_offset,
)
from replicate.partition import rows as rows_lib
from replicate.partition import splits
from replicate.partition.constants import Constant, Constants, is_made_outside
from replicate.partition.parts import Parts
from replicate.partition.placement import Instead, Placement
from replicate.partition.rows import Formulas, Rows
from replicate.partition.units import Units

_HOST = "/device:CPU:0"  # Kernels take sizes from the host's memory.

TowerTensors = Dict[Any, Tuple[Any, ...]]
"""The tensors of N towers, by references of the tensors of one device's graph."""
Given = Union["np.ndarray[Any, Any]", Constant, Any]
"""An input of a copy: a tensor, or a value that becomes a constant."""


class Inputs:
    """Finds the inputs of copies, and makes them if necessary.

    Args:
        layouts: The `Layouts`.
        shards: The shards of the batch, by reference of the tensor.
        rows: The `Rows`.
        placement: The `Placement`.
        instead: Tensors that towers take in place of whole ones.
        constants: The `Constants`.
    """

    def __init__(
        self,
        layouts: Layouts,
        shards: TowerTensors,
        rows: Rows,
        placement: Placement,
        instead: Instead,
        constants: Constants,
    ) -> None:
        self._layouts = layouts
        self._shards = shards
        self._rows = rows
        self._place = placement.consolidation
        self._instead = instead
        self._splits: dict[Any, Sequence[Any]] = {}
        self._parts = Parts(placement.consolidation)
        self._constants = constants
        self._formulas = Formulas(rows, self._size_of)
        self._by_tower: TowerTensors = {}
        self._are_made = False
        self._whole_stand_ins: dict[Any, Any] = {}
        self._size_stand_ins: list[tuple[Any, Measure, int | None]] = []
        self._no_size: dict[Any, Any] = {}
        self._offsets: dict[Any, Any] = {}
        self._units = Units(rows, self.number, self._held)

    def of_tower(self, tensor: Any, demand: Any, tower: int) -> Given:
        """Returns the input of a tower's copy if no other copy gives it in the demanded layout."""
        layout, key = self._layouts.layout_of(tensor), graph_lib.reference(tensor)
        if isinstance(demand, Share):
            return self._share(tensor, demand, tower)
        if layout == demand and key in self._shards:
            return self._shards[key][tower]
        if isinstance(demand, Own):
            shard: Any = self.of_tower(tensor, Shard(0, demand.unit), tower)
            return shard + self.offset(tensor, demand, tower)
        if isinstance(layout, Indices) and adds_offset(layout, demand):
            return self._shards[key][tower] + self.offset(tensor, layout, tower)
        if isinstance(demand, Shard):
            return self._split(tensor, demand)[tower]
        if isinstance(demand, Partial) and layout != demand:
            return self._parts.of(self._whole(tensor), demand.op, tower)
        if key in self._instead:  # A weight from a pack or replica, or a replica's handle.
            return self._instead[key][tower]
        given = self._constants.instead_of(tensor)
        return self._constants.instead_of(self._whole(tensor)) if given is tensor else given

    def are_there(self, by_tower: TowerTensors, joined: dict[Any, Any]) -> None:
        """Connects the stand-ins, once the copies exist.

        Args:
            by_tower: The towers' tensors.
            joined: Whole values, by references of tensors.
        """
        self._by_tower, self._are_made = by_tower, True
        for key, stand_in in self._whole_stand_ins.items():
            partitioning.take(stand_in.op, 0, joined[key])
        held = [
            (by_tower[graph_lib.reference(measure.tensor)][tower], measure.axis)
            for _, measure, tower in self._size_stand_ins
            if tower is not None
        ]
        sizes = iter(rows_lib.sizes_there(held))
        for stand_in, measure, tower in self._size_stand_ins:
            now = self._size_in_towers(measure) if tower is None else next(sizes)
            partitioning.take(stand_in.op, 0, now)

    def size(self, tensor: Any) -> Any:
        """Returns the whole batch's integers of a tensor whose layout is `Size`."""
        return self._formulas.whole(self._value(tensor), tensor.dtype, tensor.shape)

    def _value(self, tensor: Any) -> np.ndarray[Any, Any]:
        """Returns the formulas of integers that are known before the graph runs."""
        value = self._layouts.facts.value(tensor)
        assert value is not None, f"{tensor.name} has no formula"
        return value

    @property
    def units(self) -> Units:
        """The towers' shares of units."""
        return self._units

    def number(self, size: Dim, dtype: Any = tf.int32) -> Any:
        """Returns a size of the whole batch."""
        return self._formulas.product(size, 1, dtype)

    def _held(self, name: str) -> Sequence[Any]:
        """Returns how many of a ragged unit each tower computes."""
        measure = self._layouts.facts.symbols[name]
        return [self._size_in(measure, tower) for tower in range(len(self._rows.counts))]

    def offsets(self, tensor: Any, demand: Any, tower: int) -> list[Any]:
        """Returns the tensors to add to a tower's to get the demanded one; see `adds_offset`."""
        given = self._layouts.layout_of(tensor), demand
        both = [one for one in given if isinstance(one, (Indices, Own))]
        return [self.offset(tensor, one, tower) for one in both]

    def offset(self, tensor: Any, indices: Indices | Own, tower: int) -> Any:
        """Returns the tensor to add to turn `Indices` into one device's, or these into `Own`."""
        unit = indices.unit if isinstance(indices, Own) else indices.within
        # In a matrix, only column 0 is shifted.
        columns = (self._layouts.facts.dims(tensor) or (0,))[-1] if indices.is_matrix else 0
        key = indices.kind, unit, indices.each, columns, tensor.dtype, tower
        if key not in self._offsets:
            start = self._units.rows_of(unit).starts[tower]
            made = self._formulas.product(indices.each, start, tensor.dtype)
            width = self._formulas.product(columns, 1, tf.int32)
            with tf.device(_HOST), tf.control_dependencies(None):
                column = tf.one_hot(0, width, dtype=tensor.dtype) if indices.is_matrix else 1
                added = made * column if isinstance(indices, Indices) else -made * column
                self._offsets[key] = tf.convert_to_tensor(added, tensor.dtype)
        return self._offsets[key]

    def _share(self, tensor: Any, demand: Share, tower: int) -> Given:
        value, axis = self._value(tensor), demand.axis
        # Shares of blocks are in proportion to those of rows; those of ragged units are not known.
        rows = self._units.rows_of(demand.unit) if isinstance(demand.unit, Even) else self._rows
        constant = rows_lib.constant_share(value, axis, tower, rows)
        if constant is not None:  # So the copy has a static shape.
            return constant.astype(tensor.dtype.as_numpy_dtype)
        count, held = self._layouts.facts.count(demand.unit), self._units.held(demand.unit)[tower]
        return self._formulas.share(value, tensor.dtype, axis, count, held)

    def _split(self, tensor: Any, demand: Shard) -> Sequence[Any]:
        """Returns the towers' shards of a whole tensor."""
        key = graph_lib.reference(tensor), demand
        if key not in self._splits:
            blocks = self._units.blocks(demand.unit)
            each = self._layouts.facts.each(tensor, demand.axis, demand.unit)
            with tf.device(self._place), tf.control_dependencies(None):
                whole = self._whole(tensor)
                if blocks is None and each is not None and self._rows.are_disjoint:
                    held = self._units.held(demand.unit)
                    made = splits.split_by_sizes(whole, demand.axis, held, each)
                else:
                    unit = ROWS if blocks is not None else demand.unit
                    rows = self._units.rows_of(unit)
                    made = splits.split(whole, demand.axis, rows, blocks, each)
                self._splits[key] = made
        return self._splits[key]

    def _whole(self, tensor: Any) -> Any:
        """Returns the whole value of a tensor, or a stand-in if it does not exist yet."""
        layout, key = self._layouts.layout_of(tensor), graph_lib.reference(tensor)
        if is_made_outside(tensor.op):
            return self._constants.outside(tensor, self.size)
        # Towers may compute a whole tensor, too, each the same, as in loops.
        in_towers = tensor.op in self._layouts.strategies
        if key in self._shards or (layout == WHOLE and not in_towers):
            return tensor
        if layout == SIZE:
            return self.size(tensor)
        if key not in self._whole_stand_ins:
            with tf.control_dependencies(None), tf.device(self._place):
                self._whole_stand_ins[key] = tf.identity(tensor)
        return self._whole_stand_ins[key]

    def _size_of(self, name: str) -> Any:
        """Returns the size that a symbol stands for: an int32 scalar, of an entry its own type."""
        facts = self._layouts.facts
        measure = facts.symbols[name]
        tensor, axis, is_entry, of_each = measure
        layout, key = self._layouts.layout_of(tensor), graph_lib.reference(tensor)
        # If towers did not need the tensor, they have no copy of it: the original computes it.
        is_original = self._are_made and key not in self._by_tower and key not in self._shards
        if name in facts.ragged and tensor.op in self._layouts.strategies and not is_original:
            return self._units.rows_of(name).total
        is_there = layout == WHOLE or key in self._shards or is_original
        if is_there or (is_entry and tensor.op not in self._layouts.strategies):
            if is_entry:
                return tensor[axis]
            size = rows_lib.size_of(tensor, axis)
            if not of_each:
                return size
            unit = getattr(layout, "unit", ROWS)
            is_ragged = is_original and unit in facts.ragged
            many = self._size_of(str(unit)) if is_ragged else self._units.rows_of(unit).total
            return size // tf.maximum(many, 1)
        if key in self._by_tower:
            return self._size_in_towers(measure)
        return self._size_stand_in(measure, None)

    def _size_in(self, measure: Measure, tower: int) -> Any:
        """Returns the size of an axis as a tower has it, an int32 scalar tensor."""
        key = graph_lib.reference(measure.tensor)
        there = self._shards.get(key) or self._by_tower.get(key)
        if there is None:
            return self._size_stand_in(measure, tower)
        with tf.control_dependencies(None):
            return rows_lib.size_there(there[tower], measure.axis)

    def _size_stand_in(self, measure: Measure, tower: int | None) -> Any:
        """Returns a stand-in for a size of a tower, or of all towers if `tower` is None."""
        with tf.control_dependencies(None):
            # Not a constant, since TensorFlow would compute static shapes from it.
            dtype = measure.tensor.dtype if measure.is_entry else tf.int32
            if dtype not in self._no_size:
                self._no_size[dtype] = tf.placeholder(dtype, [], "no_size")
            stand_in = tf.identity(self._no_size[dtype])
        self._size_stand_ins.append((stand_in, measure, tower))
        return stand_in

    def _size_in_towers(self, measure: Measure) -> Any:
        """Returns a size that all towers share: an int32 scalar, of an entry its own type.

        The first tower is measured, since it has a row if any tower has. For an entry of a shape,
        such as the length of a sparse tensor's longest row, it is the maximum over towers.
        """
        by_tower = self._by_tower[graph_lib.reference(measure.tensor)]
        if isinstance(self._layouts.layout_of(measure.tensor), Grown):
            return self._grown_size(measure.tensor, by_tower)
        if measure.is_entry:
            return tf.reduce_max(tf.stack([shape[measure.axis] for shape in by_tower]))
        size = rows_lib.size_there(by_tower[0], measure.axis)
        layout = self._layouts.layout_of(measure.tensor)
        if not isinstance(layout, (Indices, Shard)) or getattr(layout, "axis", 0) != measure.axis:
            return size
        if layout.unit == ROWS:
            each = size // tf.maximum(self._rows.counts[0], 1)
        else:  # The first tower may have no entries, so all towers are measured.
            each = rows_lib.each_of(by_tower, measure.axis, self._units.rows_of(layout.unit))
        return each if measure.of_each else each * self._units.rows_of(layout.unit).total

    def rounds(self, tensor: Any, first: Any) -> Any:
        """Returns the number of rounds in which a `Grown` tensor has grown, an int32 scalar tensor.

        Args:
            tensor: The tensor.
            first: The first tower's, from whose size the number follows.
        """
        layout = self._layouts.layout_of(tensor)
        assert isinstance(layout, Grown)
        in_a_round = self._formulas.product(layout.each, self._rows.held[0], tf.int32)
        return (rows_lib.size_of(first, 0) - layout.begin) // tf.maximum(in_a_round, 1)

    def _grown_size(self, tensor: Any, by_tower: Sequence[Any]) -> Any:
        """Returns the size of axis 0 of a `Grown` tensor, an int32 scalar tensor."""
        layout = self._layouts.layout_of(tensor)
        assert isinstance(layout, Grown)
        in_a_round = self._formulas.product(layout.each, self._rows.total, tf.int32)
        return layout.begin + self.rounds(tensor, by_tower[0]) * in_a_round
