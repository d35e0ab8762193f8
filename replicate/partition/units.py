"""Finds how many of a unit each tower has: rows, blocks of them, ragged units, or even shares."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.layouts import ROWS, Blocks, Dim, Even, Unit
from replicate.partition.rows import Count, Rows

_HOST = "/device:CPU:0"  # Kernels take sizes from the host's memory.


class Units:
    """Finds the towers' shares of units, each once.

    Args:
        rows: The `Rows` of the batch.
        size_of: Function of a size that returns it as a number or an int32 scalar tensor.
        held: Function of the name of a ragged unit that returns how many of it each tower computes:
            N int32 scalar tensors.
    """

    def __init__(
        self,
        rows: Rows,
        size_of: Callable[[Dim], Any],
        held: Callable[[str], Sequence[Any]],
    ) -> None:
        self._rows = rows
        self._size_of = size_of
        self._held_of = held
        self._shares: dict[Unit, Rows] = {}
        self._held: dict[str, Sequence[Any]] = {}

    def rows_of(self, unit: Unit) -> Rows:
        """Returns the towers' shares of a `Unit`, the `Rows` themselves for `ROWS`."""
        if unit == ROWS:
            return self._rows
        if unit not in self._shares:
            self._shares[unit] = self._find(unit)
        return self._shares[unit]

    def _find(self, unit: Unit) -> Rows:
        if isinstance(unit, Blocks):
            return _in_blocks(self._rows, self._size_of(unit.many))
        if isinstance(unit, Even):
            return _evenly(self._rows, self._size_of(unit.size))
        return _ragged(self._rows, self.held(unit))

    def held(self, unit: Unit) -> Sequence[Any]:
        """Returns how many of a `Unit` each tower computes; `rows_of` needs more operations."""
        if unit == ROWS or not isinstance(unit, str):
            return self.rows_of(unit).held
        if unit not in self._held:
            self._held[unit] = self._held_of(unit)
        return self._held[unit]

    def blocks(self, unit: Unit) -> Any:
        """Returns the `splits.Blocks` of a `Unit`; None if it is another."""
        if not isinstance(unit, Blocks):
            return None
        return unit.parts or self._size_of(unit.many)


def _ragged(rows: Rows, held: Sequence[Any]) -> Rows:
    """Returns the towers' shares of a ragged unit as `Rows`.

    Args:
        rows: The `Rows` of the batch.
        held: How many of the unit each tower computes: N int32 scalar tensors.
    """
    with tf.device(_HOST), tf.control_dependencies(None):
        computed = tf.stack(held)
        if rows.are_disjoint:
            starts = tf.unstack(tf.cumsum(computed, exclusive=True))
            return Rows(held, tf.reduce_sum(computed), starts, held, is_ragged=True)
        have_rows = tf.greater(tf.stack(rows.counts), 0)
        counts = tf.where_v2(have_rows, computed, 0)
        total = tf.reduce_sum(counts)
        # A tower without rows of the batch computes the last row's once more.
        starts = tf.where_v2(have_rows, tf.cumsum(counts, exclusive=True), total - computed)
        return Rows(tf.unstack(counts), total, tf.unstack(starts), held, is_ragged=True)


def _evenly(rows: Rows, size: Count) -> Rows:
    """Returns the towers' shares of `size` entries, which differ by one at most.

    Towers without rows of the batch have no share. They compute the last entry once more.

    Args:
        rows: The `Rows` of the batch.
        size: How many entries there are, an integer or an int32 scalar tensor.
    """
    with tf.device(_HOST), tf.control_dependencies(None):
        # The first tower counts in any case; see `counted.has_rows`.
        if rows.are_known:
            flags = [not index or count > 0 for index, count in enumerate(rows.counts)]
            has: Any = np.array(flags, np.int32)
            before, many = np.cumsum(has, dtype=np.int32) - has, np.sum(has, dtype=np.int32)
        else:
            has = tf.cast(tf.stack([1, *rows.counts[1:]]) > 0, tf.int32)
            before, many = tf.cumsum(has, exclusive=True), tf.reduce_sum(has)
        is_known = rows.are_known and isinstance(size, int)
        total = size if is_known else tf.convert_to_tensor(size)

        def begin(index: Any) -> Any:
            # The product of a size and an index may be too large for an int32.
            return total // many * index + total % many * index // many

        counts = begin(before + has) - begin(before)
        once_more = (1 - has) * (min(total, 1) if is_known else tf.minimum(total, 1))
        starts = has * begin(before) + (1 - has) * total - once_more
        listed = np.ndarray.tolist if is_known else tf.unstack
        is_ragged = not (is_known and total >= many)
        return Rows(
            listed(counts), total, listed(starts), listed(counts + once_more), is_ragged=is_ragged
        )


def _in_blocks(rows: Rows, blocks: Count) -> Rows:
    """Returns the towers' shares of `blocks` blocks of rows as `Rows`, without `starts`."""
    with tf.device(_HOST), tf.control_dependencies(None):
        held = [many * blocks for many in rows.held]
        return Rows([many * blocks for many in rows.counts], rows.total * blocks, (), held)
