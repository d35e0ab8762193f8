"""The rows of the towers, and integers that follow from them."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Sequence, Union

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.layouts import ROWS, Dim, Monomial
from replicate.layouts import dims as dims_lib

Count = Union[int, Any]

# Integers stay where the host finds them: kernels take shapes there.
_HOST = "/device:CPU:0"


class Rows(NamedTuple):
    """The rows of the batch that each tower has.

    A tower beyond the batch computes its last row once more, since kernels are at their worst
    without rows, and meetings leave that tower out. Of a batch without rows, all towers have none.

    Attributes:
        counts: How many rows of each tower count, which may be 0: N integers, or N int32 scalar
            tensors if they are only known at run time.
        total: n, likewise.
        starts: The first row of each tower, likewise.
        held: How many rows each tower computes, likewise.
        may_be_none: Whether n, if it is not known, may be 0.
    """

    counts: Sequence[Count]
    total: Count
    starts: Sequence[Count]
    held: Sequence[Count]
    may_be_none: bool = False

    @property
    def are_known(self) -> bool:
        """Whether the graph knows them."""
        return isinstance(self.total, int)

    @property
    def dim(self) -> Dim:
        """Number of rows, n, as layouts have it."""
        if self.are_known:
            return self.total
        return dims_lib.symbol(dims_lib.ROWS_OR_NONE if self.may_be_none else ROWS)


class Formulas:
    """Makes tensors of integers that are products of n and of other sizes.

    Args:
        rows: The `Rows`.
        size_of: Function of a symbol other than n that returns its size, an int32 scalar tensor.
    """

    def __init__(self, rows: Rows, size_of: Callable[[str], Any]) -> None:
        self._rows = rows
        self._size_of = size_of
        self._made: dict[tuple[Any, ...], Any] = {}

    def whole(self, value: np.ndarray, dtype: Any) -> Any:
        """Returns the integers of the whole batch as a tensor.

        Args:
            value: Array of `Dim`s.
            dtype: Its type.
        """
        return self._make(value, dtype, self._rows.total, None, -1)

    def share(self, value: np.ndarray, dtype: Any, axis: int, tower: int) -> Any:
        """Returns the integers of a tower: those of the whole batch but at `axis`, its share."""
        return self._make(value, dtype, self._rows.held[tower], axis % len(value), tower)

    def constant_share(self, value: np.ndarray, axis: int, tower: int) -> Any:
        """Returns what `share` does as an array of integers, None if they are not known."""
        if not self._rows.are_known or any(isinstance(entry, Monomial) for entry in value.flat):
            return None
        made = value.astype(np.int64)
        if made[axis] != -1:
            made[axis] = made[axis] // self._rows.total * self._rows.held[tower]
        return made

    def _make(self, value: np.ndarray, dtype: Any, rows: Count, axis: Any, tower: int) -> Any:
        entries = list(value.flat)
        key = tuple(entries), value.shape, dtype, axis, tower
        if key not in self._made:
            with tf.device(_HOST), tf.control_dependencies(None):
                self._made[key] = self._combine(entries, value.shape, dtype, rows, axis)
        return self._made[key]

    def _combine(
        self, entries: Sequence[Dim], shape: tuple[int, ...], dtype: Any, rows: Count, axis: Any
    ) -> Any:
        made: list[Any] = []
        for place, entry in enumerate(entries):
            if place == axis and entry != -1:
                each = dims_lib.over(entry, self._rows.dim)
                assert each is not None
                made.append(self._times(each, rows, dtype))
            else:
                made.append(self._size(entry, dtype))
        if all(isinstance(entry, int) for entry in made):
            return tf.constant(np.reshape(made, shape), dtype)
        return tf.reshape(tf.stack(made), shape) if len(shape) != 1 else tf.stack(made)

    def _times(self, each: Dim, rows: Count, dtype: Any) -> Any:
        each = self._size(each, dtype)
        if isinstance(each, int) and isinstance(rows, int):
            return each * rows
        return _cast(rows, dtype) * each

    def _size(self, entry: Dim, dtype: Any) -> Any:
        """Returns a size of the whole batch, an integer or a scalar tensor."""
        if not isinstance(entry, Monomial):
            return int(entry)
        made = tf.constant(entry.coefficient, dtype)
        for name in entry.symbols:
            known = self._rows.total if dims_lib.is_rows(name) else self._size_of(name)
            made = made * _cast(known, dtype)
        return made


def _cast(value: Any, dtype: Any) -> Any:
    return value if isinstance(value, int) or value.dtype == dtype else tf.cast(value, dtype)
