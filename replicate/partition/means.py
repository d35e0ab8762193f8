"""The mean over all rows, from the sums or the means of the towers' rows."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.layouts import Dim, Layouts, Partial, Shard, dims
from replicate.partition.rows import Rows

_LONG = (tf.float32, tf.float64)


def entries_of(tensor: Any, layouts: Layouts) -> Dim | None:
    """Returns the number of entries of which a tensor is the mean, if sums can be divided by it.

    It is None if the tensor is not the direct result of a `Mean` over rows, but follows from one;
    if the number is not known; or if sums may be too large for the tensor's type.
    """
    layout, strategy = layouts.layout_of(tensor), layouts.strategies.get(tensor.op)
    if tensor.op.type != "Mean" or strategy is None or tensor.dtype.base_dtype not in _LONG:
        return None
    if not isinstance(layout, Partial) or not isinstance(strategy.inputs[0], Shard):
        return None
    op = layouts.facts.op_of(tensor.op)
    shape, axes = op.dims(0), op.ints(1)
    if shape is None or axes is None:
        return None
    found = dims.product(shape[axis] for axis in {axis % len(shape) for axis in axes})
    return None if dims.is_of_loop(found) else found


def sums(by_tower: Sequence[Any]) -> tuple[Any, ...]:
    """Returns the sums of the entries of which the towers' tensors are the means.

    The sum of whole numbers is exact, and so is their mean on one device. The mean of a tower's
    rows is rounded.
    """
    made = []
    for op in (mean.op for mean in by_tower):
        with tf.device(op.device), tf.control_dependencies(None):
            entries, axis = op.inputs
            made.append(
                tf.raw_ops.Sum(input=entries, axis=axis, keep_dims=op.get_attr("keep_dims"))
            )
    return tuple(made)


def divided(total: Any, number: Any) -> Any:
    """Returns a sum divided by a number: a tensor or an integer."""
    if isinstance(number, int) and number and not total.dtype.is_complex:
        # TensorFlow's optimizer turns other divisions by constants into products, which it rounds.
        return tf.math.divide_no_nan(total, tf.constant(number, total.dtype))
    return total / tf.cast(number, total.dtype)


def of_all(by_tower: Sequence[Any], rows: Rows, devices: Sequence[str]) -> Any:
    """Returns the mean over all rows.

    Equal means stay as they are: shares such as 3/7 are rounded, so that with them the mean of ones
    would not always be 1. Otherwise, means are multiplied by numbers of rows, and the sum is
    divided once, which is mostly exact for whole numbers.

    Args:
        by_tower: The means of the towers' rows. If the batch has none, all but tower 0's are zero.
        rows: The `Rows`.
        devices: Device strings of the towers.
    """
    towers = len(by_tower)
    if rows.are_known and set(rows.counts) == {rows.total // towers} and not towers & (towers - 1):
        return tf.add_n(shares(by_tower, rows, devices))  # Products with powers of 2 are exact.
    counted = []
    for value, count, device in zip(by_tower, rows.counts, devices):
        with tf.device(device):
            counted.append(_or_zero(value, count, rows))
    first, dtype = counted[0], counted[0].dtype
    # The products may be too large for the type of the mean.
    wide = tf.complex128 if dtype.is_complex else tf.float64
    each = tf.stack(counted, -1)
    weights = tf.cast(tf.stack([_or_one(count, rows) for count in rows.counts]), wide)
    total = tf.reduce_sum(tf.cast(each, wide) * weights, -1)
    mean = tf.cast(divided(total, _or_one(rows.total, rows)), dtype)
    are_equal = tf.reduce_all(tf.equal(each, tf.expand_dims(first, -1)), -1)
    return tf.where_v2(are_equal, first, mean)


def shares(by_tower: Sequence[Any], rows: Rows, devices: Sequence[str]) -> list[Any]:
    """Returns the towers' shares of the mean, which add up to it, except for rounding.

    Unlike products with numbers of rows, these are no larger than the means: gradients may be sent
    in 16 bits. For the arguments see `of_all`.
    """
    made = []
    for value, count, device in zip(by_tower, rows.counts, devices):
        with tf.device(device):
            weight: Any = _or_one(count, rows)
            if rows.are_known:
                share = tf.constant(weight / _or_one(rows.total, rows), value.dtype)
            else:
                # Divided in double precision, so that a weight such as 3/7 is rounded only once.
                total = tf.cast(_or_one(rows.total, rows), tf.float64)
                share = tf.cast(tf.cast(weight, tf.float64) / total, value.dtype)
            made.append(_or_zero(value, count, rows) * share)
    return made


def _or_one(count: Any, rows: Rows) -> Any:
    """Returns a number of rows, 1 if the batch has none: tower 0's mean is that of no rows then."""
    if rows.are_known:
        return count if rows.total else 1
    return tf.where_v2(rows.total > 0, count, 1)


def _or_zero(value: Any, count: Any, rows: Rows) -> Any:
    """Returns a tower's mean, 0 if the tower has no entries, unless no tower has any.

    The mean of no entries is NaN, which must not reach that of the batch.
    """
    if not rows.is_ragged:
        return value
    counts = (count > 0) | tf.equal(rows.total, 0)
    return tf.where_v2(counts, value, tf.zeros([], value.dtype))
