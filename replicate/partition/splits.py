"""Splits whole tensors into the towers' shards."""

from __future__ import annotations

from typing import Any, Sequence, Union

import tensorflow.compat.v1 as tf

from replicate.partition import rows as rows_lib
from replicate.partition.rows import Rows

Blocks = Union[int, tf.Tensor, "tuple[int, ...]"]
"""How many blocks an axis has, or how many entries of each block a row has, if these differ."""


def split(
    tensor: Any, axis: int, rows: Rows, blocks: Blocks | None = None, each: int | None = None
) -> list[Any]:
    """Returns the towers' shards of a tensor.

    Args:
        tensor: A tensor with the same number of entries for each row on `axis`; or with a single
            entry, which every tower gets, since operations broadcast it.
        axis: The axis.
        rows: The `Rows`.
        blocks: The `Blocks` on the axis, for tensors of known rank. None: rows.
        each: How many entries of the axis each row has, without `blocks`. None: that is found at
            run time.
    """
    if blocks is not None:
        return _split_blocks(tensor, axis, rows, blocks)
    if each is not None:
        begins, counts = _times(rows.starts, each), _times(rows.held, each)
    else:
        begins, counts = _places(tensor, axis, rows)
    rank = tensor.shape.rank
    rank_now = tf.rank(tensor) if rank is None else rank
    return [_slice(tensor, axis, begin, count, rank_now) for begin, count in zip(begins, counts)]


def split_by_sizes(tensor: Any, axis: int, held: Sequence[Any], each: int) -> list[Any]:
    """Returns the towers' shards of a tensor, none of whose entries two towers have.

    Args:
        tensor: The tensor.
        axis: The axis.
        held: How many rows, or others of a unit, each tower has.
        each: How many entries of the axis each of them has.
    """
    return list(tf.split(tensor, _times(held, each), axis, num=len(held)))


def _places(tensor: Any, axis: int, rows: Rows) -> tuple[list[Any], list[Any]]:
    """Returns where the towers' entries begin, and how many there are, by the size of the axis."""
    entries, total = rows_lib.size_of(tensor, axis), tf.maximum(rows.total, 1)
    each = entries // total
    # With too many entries, one device raises an error. So does the last tower, if it asks for more
    # than there are.
    more = 2 * (entries % total)
    # A single entry is broadcast, unless there is only one row: then other towers may have none.
    is_one = tf.equal(entries, 1) & tf.not_equal(rows.total, 1)
    begins = tf.unstack(tf.where_v2(is_one, 0, tf.stack(rows.starts) * each))
    return begins, tf.unstack(tf.where_v2(is_one, 1, tf.stack(rows.held) * each + more))


def _times(counts: Sequence[Any], each: int) -> list[Any]:
    return list(counts) if each == 1 else [count * each for count in counts]


def _slice(tensor: Any, axis: int, begin: Any, count: Any, rank: Any) -> Any:
    """Returns `count` entries of an axis."""
    if isinstance(rank, int):
        zeros, alls = [0] * rank, [-1] * rank
        zeros[axis], alls[axis] = begin, count
        part = tf.slice(tensor, tf.stack(zeros), tf.stack(alls))
        part.set_shape(
            None if place == axis else size for place, size in enumerate(tensor.shape.as_list())
        )
        return part
    # For an unknown rank: begins at 0 and sizes of -1, except on the axis.
    on_axis = tf.one_hot(axis, rank, dtype=tf.int32)
    return tf.slice(tensor, on_axis * begin, on_axis * (count + 1) - 1)


def _split_blocks(tensor: Any, axis: int, rows: Rows, blocks: Blocks) -> list[Any]:
    """Splits every block among towers; a single entry is for all of them."""
    if isinstance(blocks, tuple):
        by_block = [split(part, axis, rows) for part in _parts(tensor, axis, blocks)]
        return [tf.concat(own, axis) for own in zip(*by_block)]
    is_one = tf.equal(rows_lib.size_of(tensor, axis), 1)
    # A single entry is one block of one entry, of which each tower gets all.
    parts = split(_apart(tensor, axis, tf.where_v2(is_one, 1, blocks)), axis + 1, rows)
    return [_together(part, axis) for part in parts]


def joined(by_tower: Sequence[Any], axis: int, blocks: Blocks) -> Any:
    """Reverses `split` of blocks: concatenates the towers' rows within each block."""
    if isinstance(blocks, tuple):
        by_block = zip(*(_parts(value, axis, blocks) for value in by_tower))
        return tf.concat([part for own in by_block for part in own], axis)
    apart = [_apart(value, axis, blocks) for value in by_tower]
    return _together(tf.concat(apart, axis + 1), axis)


def _parts(tensor: Any, axis: int, parts: tuple[int, ...]) -> list[Any]:
    """Returns the blocks of an axis, which have so many entries for each row.

    Of a single entry, which operations broadcast, it is the first one, and the others are empty.
    """
    size = rows_lib.size_of(tensor, axis)
    is_first = tf.one_hot(0, len(parts), dtype=tf.int32)
    sizes = tf.where_v2(tf.equal(size, 1), is_first, size // sum(parts) * tf.constant(parts))
    return list(tf.split(tensor, sizes, axis, num=len(parts)))


def _apart(tensor: Any, axis: int, blocks: Any) -> Any:
    """Returns a tensor of known rank with blocks on `axis`, and their entries on the next axis."""
    shape = tf.shape(tensor)
    size = shape[axis] // tf.maximum(blocks, 1)
    made = tf.concat([shape[:axis], [blocks, size], shape[axis + 1 :]], 0)
    return tf.reshape(tensor, made)


def _together(tensor: Any, axis: int) -> Any:
    """Reverses `_apart`."""
    shape = tf.shape(tensor)
    made = tf.concat([shape[:axis], [shape[axis] * shape[axis + 1]], shape[axis + 2 :]], 0)
    return tf.reshape(tensor, made)
