"""The rows of the towers, and formulas for integers that follow from them."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence, Union

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat.node_builder import NodeBuilder
from replicate.layouts import ROWS, Dim, Monomial
from replicate.layouts import dims as dims_lib

Count = Union[int, Any]

# Kernels take shapes from the host's memory, so integers are computed there.
_HOST = "/device:CPU:0"
_SCOPE = "replicate/partition/sizes/"


class Rows(NamedTuple):
    """The rows of the batch that each tower has.

    If there are fewer rows than towers, the other towers compute the last row once more, since some
    kernels fail without rows, and meetings leave their values out. If the batch has no rows, no
    tower has any.

    Attributes:
        counts: How many rows of each tower count, which may be 0: N integers, or N int32 scalar
            tensors if they are only known at run time.
        total: n, an integer or a tensor like these.
        starts: The index of the first row of each tower, likewise.
        held: How many rows each tower computes, likewise.
        may_be_none: Whether n may be 0, if it is not known.
        is_ragged: Whether these are not rows but a ragged unit, see `Shard.unit`. Then towers may
            have none.
    """

    counts: Sequence[Count]
    total: Count
    starts: Sequence[Count]
    held: Sequence[Count]
    may_be_none: bool = False
    is_ragged: bool = False

    @property
    def are_known(self) -> bool:
        """Whether the graph knows the number of rows."""
        return isinstance(self.total, int)

    @property
    def are_disjoint(self) -> bool:
        """Whether the graph knows that no tower computes the last row once more."""
        ints = (int, np.integer)
        return all(
            count is held or (isinstance(count, ints) and count == held)
            for count, held in zip(self.counts, self.held)
        )

    @property
    def dim(self) -> Dim:
        """The number of rows, n, as a `Dim`."""
        if self.are_known:
            return self.total
        return dims_lib.symbol(dims_lib.ROWS_OR_NONE if self.may_be_none else ROWS)


def size_of(tensor: Any, axis: int) -> Any:
    """Returns the size of an axis, an int32 scalar tensor."""
    rank = tensor.shape.rank
    if rank is None:
        return tf.shape(tensor)[axis]
    if rank == 1:
        return tf.raw_ops.Size(input=tensor, out_type=tf.int32)
    # Two operations, while a slice of `tf.shape` needs more.
    return tf.unstack(tf.raw_ops.Shape(input=tensor, out_type=tf.int32), rank)[axis]


def size_there(tensor: Any, axis: int) -> Any:
    """Returns the size of an axis, an int32 scalar tensor, measured on the tensor's device."""
    with tf.device(tensor.device):
        return size_of(tensor, axis)


def sizes_there(places: Sequence[tuple[Any, int]]) -> list[Any]:
    """Returns what `size_there` does for many tensors and axes, most of it made by one import."""
    builder = NodeBuilder()
    named = {}
    for index, (tensor, axis) in enumerate(places):
        rank, dtype, device = tensor.shape.rank, tensor.dtype, tensor.device
        if rank is None:
            continue
        taken = [builder.name_of(tensor)]
        if rank == 1:
            named[index] = builder.add("Size", taken, dtype, device, out_type=tf.int32)
        else:
            shape = builder.add("Shape", taken, dtype, device, out_type=tf.int32)
            parts = builder.add("Unpack", [shape], tf.int32, device, num=rank, axis=0)
            named[index] = f"{parts}:{axis}"
    made = dict(zip(named, builder.make(_SCOPE, named.values())))
    return [made[i] if i in made else size_there(*place) for i, place in enumerate(places)]


def each_of(by_tower: Sequence[Any], axis: int, rows: Rows) -> Any:
    """Returns how many entries of an axis of the towers' tensors there are for each of `rows`."""
    sizes = tf.add_n([size_there(tensor, axis) for tensor in by_tower])
    return sizes // tf.maximum(tf.add_n(list(rows.held)), 1)


class Formulas:
    """Makes tensors from formulas: products of n and other sizes.

    Args:
        rows: The `Rows`.
        size_of: Function of a symbol other than n that returns its size, an int32 scalar tensor.
    """

    def __init__(self, rows: Rows, size_of: Callable[[str], Any]) -> None:
        self._rows = rows
        self._size_of = size_of
        self._made: dict[tuple[Any, ...], Any] = {}
        self._sizes: dict[tuple[Dim, Any], Any] = {}

    def product(self, each: Dim, count: Count, dtype: Any) -> Any:
        """Returns the product of a size and a count, a scalar tensor or an integer."""
        with tf.device(_HOST), tf.control_dependencies(None):
            return self._times(each, count, dtype)

    def whole(self, value: np.ndarray[Any, Any], dtype: Any, shape: tf.TensorShape) -> Any:
        """Returns the integers of the whole batch as a tensor.

        Args:
            value: Array of `Dim`s.
            dtype: Its type.
            shape: The static shape of the tensor that it replaces.
        """
        made = self._make(value, dtype, self._rows.total, ())
        if made.shape.is_compatible_with(shape):
            return made
        # TensorFlow 1.15 takes an empty `DynamicStitch` for one entry, and would refuse none.
        return tf.placeholder_with_default(made, None)

    def share(
        self,
        value: np.ndarray[Any, Any],
        dtype: Any,
        axis: int | None,
        count: Dim,
        held: Count,
    ) -> Any:
        """Returns the integers of a tower: those of the whole batch, with its share at `axis`.

        Args:
            value: Array of `Dim`s.
            dtype: Its type.
            axis: The index of the integer that is a multiple of `count`; None if all are.
            count: The number of rows, or of another unit, in the batch.
            held: The number of these in the tower.
        """
        return self._make(value, dtype, held, _shared(value, axis), count)

    def _make(
        self,
        value: np.ndarray[Any, Any],
        dtype: Any,
        held: Count,
        shared: tuple[int, ...],
        count: Dim = 1,
    ) -> Any:
        entries = list(value.flat)
        # Two units may have as many in the batch, but not in a tower.
        share = held if isinstance(held, int) else graph_lib.reference(held)
        key = tuple(entries), value.shape, dtype, shared, count, share
        if key not in self._made:
            with tf.device(_HOST), tf.control_dependencies(None):
                self._made[key] = self._combine(entries, value.shape, dtype, shared, count, held)
        return self._made[key]

    def _combine(
        self,
        entries: Sequence[Dim],
        shape: tuple[int, ...],
        dtype: Any,
        shared: tuple[int, ...],
        count: Dim,
        held: Count,
    ) -> Any:
        made: list[Any] = []
        for place, entry in enumerate(entries):
            if place in shared and entry != -1:
                each = dims_lib.over(entry, count)
                assert each is not None
                made.append(self._times(each, held, dtype))
            else:
                made.append(self._size(entry, dtype))
        if all(isinstance(entry, int) for entry in made):
            return tf.constant(np.reshape(made, shape), dtype)
        if not shape:
            return made[0]
        return tf.reshape(tf.stack(made), shape) if len(shape) != 1 else tf.stack(made)

    def _times(self, each: Dim, rows: Count, dtype: Any) -> Any:
        return _product(self._size(each, dtype), _cast(rows, dtype))

    def _size(self, entry: Dim, dtype: Any) -> Any:
        """Returns a size of the whole batch, an integer or a scalar tensor."""
        if not isinstance(entry, Monomial):
            return int(entry)
        if (entry, dtype) not in self._sizes:
            self._sizes[entry, dtype] = self._multiplied(entry, dtype)
        return self._sizes[entry, dtype]

    def _multiplied(self, entry: Monomial, dtype: Any) -> Any:
        made: Any = entry.coefficient
        for name in entry.symbols:
            known = self._rows.total if dims_lib.is_rows(name) else self._size_of(name)
            made = _product(made, _cast(known, dtype))
        return made


def constant_share(
    value: np.ndarray[Any, Any], axis: int | None, tower: int, rows: Rows
) -> np.ndarray[Any, Any] | None:
    """Returns the result of `Formulas.share` as integers, None if they are not known.

    Args:
        value: Array of `Dim`s.
        axis: The index of the integer that is a multiple of the rows; None if all are.
        tower: The index of the tower.
        rows: The `Rows`, or those of another unit.
    """
    if not rows.are_known or any(isinstance(entry, Monomial) for entry in value.flat):
        return None
    made = value.astype(np.int64)
    for place in _shared(value, axis):
        if made.flat[place] != -1:  # Else the operation finds the size itself.
            made.flat[place] = made.flat[place] // rows.total * rows.held[tower]
    return made


def _shared(value: np.ndarray[Any, Any], axis: int | None) -> tuple[int, ...]:
    """Returns the places of the integers that are a tower's shares."""
    return tuple(range(value.size)) if axis is None else (axis % value.size,)


def _product(a: Any, b: Any) -> Any:
    """Returns the product of integers or scalar tensors; a factor of 1 needs no operation."""
    if isinstance(a, int) and a == 1:
        return b
    return a if isinstance(b, int) and b == 1 else a * b


def _cast(value: Any, dtype: Any) -> Any:
    return value if isinstance(value, int) or value.dtype == dtype else tf.cast(value, dtype)
