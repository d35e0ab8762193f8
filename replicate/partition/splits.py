"""Splits what is whole into the towers' shards."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.partition.rows import Rows


def split(tensor: Any, axis: int, rows: Rows) -> list[Any]:
    """Returns the towers' shards of a tensor.

    Args:
        tensor: A tensor that has the same number of entries for each row on `axis`; or one entry
            for all, which every tower gets, since operations broadcast it.
        axis: The axis.
        rows: The `Rows`.
    """
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
