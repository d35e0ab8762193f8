"""Finds the inputs of the towers' copies: shards, shares of shapes, and whole values.

A copy may take a whole value that towers have parts of, before these are put together. Then it
takes a stand-in, which gets its value once the copies are there.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence, Tuple, Union

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning
from replicate.layouts import SIZE, WHOLE, Layouts, Partial, Shard, Share
from replicate.partition import splits
from replicate.partition.placement import Instead, Placement
from replicate.partition.rows import Formulas, Rows

# Constants of more entries cross devices instead of being copied.
_LARGE = 2**16

Own = Dict[Any, Tuple[Any, ...]]
"""By references of tensors of one device's graph: those of N towers."""

Given = Union[np.ndarray, Any]
"""An input of a copy: a tensor, an array of constants, or the `NodeDef` of a constant."""


class Inputs:
    """Finds what copies take, and makes it where it is not there.

    Args:
        layouts: The `Layouts`.
        shards: The shards of the batch, by reference of the tensor.
        rows: The `Rows`.
        placement: The `Placement`.
        instead: What towers take in place of whole tensors.

    """

    def __init__(
        self, layouts: Layouts, shards: Own, rows: Rows, placement: Placement, instead: Instead
    ) -> None:
        self._layouts = layouts
        self._shards = shards
        self._rows = rows
        self._place = placement.consolidation
        self._instead = instead
        self._splits: dict[Any, Sequence[Any]] = {}
        self._nothing: dict[Any, Any] = {}
        self._constants: dict[Any, Any] = {}
        self._formulas = Formulas(rows, self._size_of)
        self._own: Own = {}
        self._whole_stand_ins: dict[Any, Any] = {}
        self._size_stand_ins: list[tuple[Any, Any, int]] = []

    def of_tower(self, tensor: Any, demand: Any, tower: int) -> Given:
        """Returns what a tower's copy takes that has no copy of the tensor as it demands it."""
        layout, key = self._layouts.of(tensor), graph_lib.reference(tensor)
        if isinstance(demand, Share):
            return self._share(tensor, demand.axis, tower)
        if layout == demand and key in self._shards:
            return self._shards[key][tower]
        if isinstance(demand, Shard):
            return self._split(tensor, demand.axis)[tower]
        if isinstance(demand, Partial) and layout != demand:
            return self._part(tensor, demand.op, tower)
        if key in self._instead:
            return self._instead[key][tower]
        if _is_small_constant(tensor):
            return tensor.op.node_def
        return self._whole(tensor)

    def are_there(self, own: Own, joined: dict[Any, Any]) -> None:
        """Gives stand-ins their values, once the copies are there.

        Args:
            own: What the towers have.
            joined: Whole values, by references of tensors.
        """
        self._own = own
        for key, stand_in in self._whole_stand_ins.items():
            partitioning.take(stand_in.op, 0, joined[key])
        for stand_in, tensor, axis in self._size_stand_ins:
            partitioning.take(stand_in.op, 0, self._size_in_first(tensor, axis))

    def size(self, tensor: Any) -> Any:
        """Returns the whole batch's integers of a tensor whose layout is `Size`."""
        return self._formulas.whole(self._value(tensor), tensor.dtype)

    def _value(self, tensor: Any) -> np.ndarray:
        value = self._layouts.facts.value(tensor)
        assert value is not None, f"{tensor.name} has no formula"
        return value

    def _share(self, tensor: Any, axis: int, tower: int) -> Given:
        value = self._value(tensor)
        constant = self._formulas.constant_share(value, axis, tower)
        if constant is not None:
            return constant.astype(tensor.dtype.as_numpy_dtype)
        return self._formulas.share(value, tensor.dtype, axis, tower)

    def _split(self, tensor: Any, axis: int) -> Sequence[Any]:
        key = graph_lib.reference(tensor), axis
        if key not in self._splits:
            with tf.device(self._place), tf.control_dependencies(None):
                self._splits[key] = splits.split(self._whole(tensor), axis, self._rows)
        return self._splits[key]

    def _part(self, tensor: Any, op: str, tower: int) -> Any:
        """Returns what a tower has of a whole value that is to be in parts."""
        whole = self._whole(tensor)
        if not tower or op not in ("sum", "prod"):
            return whole  # The mean, or the greatest, of equal parts is each of them.
        key = graph_lib.reference(tensor), op
        if key not in self._nothing:
            with tf.device(self._place), tf.control_dependencies(None):
                nothing = tf.raw_ops.ZerosLike if op == "sum" else tf.raw_ops.OnesLike
                self._nothing[key] = nothing(x=whole)
        return self._nothing[key]

    def _whole(self, tensor: Any) -> Any:
        """Returns the whole value of a tensor; a stand-in, if it is not there yet."""
        layout, key = self._layouts.of(tensor), graph_lib.reference(tensor)
        if tensor.op.type == "Const" and graph_lib.in_while_loop(tensor.op):
            return self._constant(tensor)
        in_towers = tensor.op in self._layouts.strategies  # Maybe the same in all of them.
        if key in self._shards or (layout == WHOLE and not in_towers):
            return tensor
        if layout == SIZE:
            return self.size(tensor)
        if key not in self._whole_stand_ins:
            with tf.control_dependencies(None), tf.device(self._place):
                self._whole_stand_ins[key] = tf.identity(tensor)
        return self._whole_stand_ins[key]

    def _constant(self, tensor: Any) -> Any:
        """Returns a constant of a loop outside of it."""
        key = graph_lib.reference(tensor)
        if key not in self._constants:
            with tf.control_dependencies(None), tf.device(self._place):
                value = tf.make_ndarray(tensor.op.get_attr("value"))
                self._constants[key] = tf.constant(value, tensor.dtype)
        return self._constants[key]

    def _size_of(self, name: str) -> Any:
        """Returns the size that a symbol stands for, an int32 scalar tensor."""
        tensor, axis = self._layouts.facts.symbols[name]
        layout, key = self._layouts.of(tensor), graph_lib.reference(tensor)
        if layout == WHOLE:
            return tf.shape(tensor)[axis]
        if key in self._shards:
            size = tf.shape(tensor)[axis]
            return size // tf.maximum(self._rows.total, 1) if layout == Shard(axis) else size
        if key in self._own:
            return self._size_in_first(tensor, axis)
        with tf.control_dependencies(None):  # A constant would give shapes that size at once.
            stand_in = tf.identity(tf.shape(tensor)[axis])
        self._size_stand_ins.append((stand_in, tensor, axis))
        return stand_in

    def _size_in_first(self, tensor: Any, axis: int) -> Any:
        """Returns a size that all towers share, as the first one has it, which is never empty."""
        size = tf.shape(self._own[graph_lib.reference(tensor)][0])[axis]
        if self._layouts.of(tensor) == Shard(axis):
            return size // tf.maximum(self._rows.counts[0], 1)
        return size


def _is_small_constant(tensor: Any) -> bool:
    """Whether a tensor is copied rather than sent: a constant that waits for nothing."""
    operation = tensor.op
    small = (tensor.shape.num_elements() or 0) <= _LARGE
    return operation.type == "Const" and small and not operation.control_inputs
