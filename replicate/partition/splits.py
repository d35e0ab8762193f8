"""Splits whole tensors into the towers' shards."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.partition import rows as rows_lib
from replicate.partition.rows import Rows


def split(tensor: Any, axis: int, rows: Rows, blocks: Any = None) -> list[Any]:
    """Returns the towers' shards of a tensor.

    Args:
        tensor: A tensor with the same number of entries for each row on `axis`; or with a single
            entry, which every tower gets, since operations broadcast it.
        axis: The axis.
        rows: The `Rows`.
        blocks: The number of `Blocks` on the axis, for tensors of known rank. None: rows.
    """
    if blocks is not None:
        return _split_blocks(tensor, axis, rows, blocks)
    rank = tensor.shape.rank
    size = None if rank is None else tensor.shape.as_list()[axis]
    # A single operation for known sizes. It cannot give the last row to towers without rows.
    if rows.are_known and size is not None and all(rows.counts):
        each = size // rows.total
        return list(tf.split(tensor, [each * count for count in rows.counts], axis))
    entries = rows_lib.size_of(tensor, axis)
    each = entries // tf.maximum(rows.total, 1)
    # A single entry is broadcast, unless there is only one row: then other towers may have none.
    is_one = tf.equal(entries, 1) & tf.not_equal(rows.total, 1)
    begins = tf.unstack(tf.where_v2(is_one, 0, tf.stack(rows.starts) * each))
    counts = tf.unstack(tf.where_v2(is_one, 1, tf.stack(rows.held) * each))
    rank_now = tf.rank(tensor) if rank is None else rank
    return [_slice(tensor, axis, begin, count, rank_now) for begin, count in zip(begins, counts)]


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


def _split_blocks(tensor: Any, axis: int, rows: Rows, blocks: Any) -> list[Any]:
    """Splits every block among towers; a single entry is for all of them."""
    is_one = tf.equal(rows_lib.size_of(tensor, axis), 1)
    # A single entry is one block of one entry, of which each tower gets all.
    parts = split(apart(tensor, axis, tf.where_v2(is_one, 1, blocks)), axis + 1, rows)
    return [together(part, axis) for part in parts]


def apart(tensor: Any, axis: int, blocks: Any) -> Any:
    """Returns a tensor of known rank with blocks on `axis`, and their entries on the next axis."""
    shape = tf.shape(tensor)
    size = shape[axis] // tf.maximum(blocks, 1)
    made = tf.concat([shape[:axis], [blocks, size], shape[axis + 1 :]], 0)
    return tf.reshape(tensor, made)


def together(tensor: Any, axis: int) -> Any:
    """Reverses `apart`."""
    shape = tf.shape(tensor)
    made = tf.concat([shape[:axis], [shape[axis] * shape[axis + 1]], shape[axis + 2 :]], 0)
    return tf.reshape(tensor, made)
