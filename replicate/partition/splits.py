"""Splits what is whole into the towers' shards."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.partition.rows import Rows


def split(tensor: Any, axis: int, rows: Rows, blocks: Any = None) -> list[Any]:
    """Returns the towers' shards of a tensor.

    Args:
        tensor: A tensor that has the same number of entries for each row on `axis`; or one entry
            for all, which every tower gets, since operations broadcast it.
        axis: The axis.
        rows: The `Rows`.
        blocks: How often all rows are there, see `Blocks`; the rank is known then. None: once.
    """
    if blocks is not None:
        return _split_blocks(tensor, axis, rows, blocks)
    rank = tensor.shape.rank
    size = None if rank is None else tensor.shape.as_list()[axis]
    if rows.are_known and size is not None and all(rows.counts):
        each = size // rows.total
        return list(tf.split(tensor, [each * count for count in rows.counts], axis))
    shape = tf.shape(tensor)
    entries = shape[axis]
    each = entries // tf.maximum(rows.total, 1)
    # One entry in all may be one that a tower has none of.
    is_one = tf.equal(entries, 1) & tf.not_equal(rows.total, 1)
    on_axis = tf.one_hot(axis, tf.size(shape) if rank is None else rank, dtype=tf.int32)
    known = None if rank is None else tensor.shape.as_list()
    if known is not None:
        known[axis] = None
    parts = []
    for start, count in zip(rows.starts, rows.held):
        begin = tf.where_v2(is_one, 0, start * each)
        many = tf.where_v2(is_one, 1, count * each)
        part = tf.slice(tensor, on_axis * begin, shape * (1 - on_axis) + on_axis * many)
        part.set_shape(known)
        parts.append(part)
    return parts


def _split_blocks(tensor: Any, axis: int, rows: Rows, blocks: Any) -> list[Any]:
    """Splits every block of the rows. One entry is for all of them."""
    is_one = tf.equal(tf.shape(tensor)[axis], 1)
    # So many times one entry are as many blocks; what each tower gets of these is the same.
    parts = split(apart(tensor, axis, tf.where_v2(is_one, 1, blocks)), axis + 1, rows)
    return [together(part, axis) for part in parts]


def apart(tensor: Any, axis: int, blocks: Any) -> Any:
    """Returns a tensor of known rank with blocks on `axis`, and what each has on the next one."""
    shape = tf.shape(tensor)
    size = shape[axis] // tf.maximum(blocks, 1)
    made = tf.concat([shape[:axis], [blocks, size], shape[axis + 1 :]], 0)
    return tf.reshape(tensor, made)


def together(tensor: Any, axis: int) -> Any:
    """Does the reverse of `apart`."""
    shape = tf.shape(tensor)
    made = tf.concat([shape[:axis], [shape[axis] * shape[axis + 1]], shape[axis + 2 :]], 0)
    return tf.reshape(tensor, made)
