"""Splits a batch into shards, one per tower, and gives each its weight.

The first `n mod N` of N shards of a batch of n rows get one row more than the others, as
`tf.sparse.split` has it, so that dense, sparse and ragged leaves stay aligned.
"""

import itertools
from typing import Any, List, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib

SHARD_SCOPE = "replicate/shard/"  # Name scope of the operations that make shards.

_SAME_ROWS = "All tensors of a batch must have the same number of rows (axis 0),"
_NOT_IN_BATCH = "Pass what is no part of the batch as a scalar or through `params`."


class Shards(NamedTuple):
    """The shards of one batch.

    Attributes:
        features: N structures like the batch's features, one per tower.
        labels: N structures like the batch's labels.
        rows: Rows of the batch in each shard, which may be 0: N integers, or N int32 scalar tensors
            if only known at run time.
        total: Rows of the batch, an integer or an int32 scalar tensor.
    """

    features: List[Any]
    labels: List[Any]
    rows: List[Any]
    total: Any


class _Spans(NamedTuple):
    """First row and number of rows of each shard, integers or int32 scalar tensors."""

    starts: List[Any]
    counts: List[Any]
    overlap: bool  # Whether shards may have rows in common.


class Weights:
    """One scalar weight per tower.

    Args:
        values: N numbers, or N scalar float64 tensors if only known at run time.
        positive: Whether all values are known to be positive.
    """

    def __init__(self, values, positive=False):
        self._values = list(values)
        self._positive = positive
        self._cast = {}
        known = not any(isinstance(value, tf.Tensor) for value in self._values)
        self.equal = self._values[0] if known and len(set(self._values)) == 1 else None
        """The weight of every tower, None if they differ or are only known at run time."""

    def of(self, index, dtype):
        """Returns the weight of tower `index` as a scalar tensor of `dtype`."""
        key = index, tf.as_dtype(dtype)
        if key not in self._cast:
            # Kept for later use, so it may depend on nothing that is open just now.
            with tf.control_dependencies(None), tf.name_scope("replicate/weights/"):
                value = self._values[index]
                known = not isinstance(value, tf.Tensor)
                self._cast[key] = tf.constant(value, dtype) if known else tf.cast(value, dtype)
        return self._cast[key]

    def is_positive(self, index):
        """Whether the weight of tower `index` is known to be positive."""
        weight = self._values[index]
        return self._positive or (not isinstance(weight, tf.Tensor) and weight > 0)

    def mask(self, index, value, otherwise):
        """Returns `value` of tower `index` if the tower's weight is positive, else `otherwise`."""
        if self.is_positive(index):
            return value
        return tf.where_v2(self.of(index, tf.float32) > 0, value, otherwise)


def row_weights(shards, positive=False):
    """Returns the `Weights` nᵢ / n, of nᵢ rows of tower i and n rows of the batch.

    Args:
        shards: The `Shards`.
        positive: Whether every shard has a row.
    """
    if isinstance(shards.total, int):
        return Weights([rows / max(shards.total, 1) for rows in shards.rows])
    with tf.name_scope("replicate/weights/"):
        total = tf.cast(tf.maximum(shards.total, 1), tf.float64)
        return Weights([tf.cast(rows, tf.float64) / total for rows in shards.rows], positive)


def shard(features, labels, num_towers, need_row_each):
    """Splits features and labels by rows, that is, along axis 0.

    Args:
        features: Nested structure (dict, list, tuple, namedtuple) of tensors, `tf.SparseTensor`s
            and `tf.RaggedTensor`s of shape [n, ...], the same n in all. Scalars, None and
            whatever else is no tensor go to every tower whole.
        labels: Like `features`; None if there are none.
        num_towers: N, at least 2.
        need_row_each: Whether every shard must have a row, as in training. Otherwise shards beyond
            the batch hold a copy of its last row, and weigh nothing.

    Returns:
        A `Shards`.

    Raises:
        ValueError: If no leaf has rows, if the leaves differ in rows, or if a row is missing. What
            is only known at run time raises `tf.errors.InvalidArgumentError` in the first step
            that breaks the rule, before the towers compute.
    """
    with tf.device("/device:CPU:0"), tf.name_scope(SHARD_SCOPE):
        batch = {"features": features, "labels": labels}
        paths, leaves = zip(*graph_lib.flatten_with_paths(batch))
        leaves = [_as_leaf(leaf) for leaf in leaves]
        splitters = [_splitter(leaf) for leaf in leaves]
        with_rows = [(path, leaf) for path, leaf, split in zip(paths, leaves, splitters) if split]
        rows, total, checks = _shard_rows(with_rows, num_towers, need_row_each)
        # For hooks, which find it by this name.
        tf.identity(total, name="batch_size")
        with tf.control_dependencies(checks):
            spans = _spans(rows, total, need_row_each)
            parts = [
                split(leaf, spans) if split else [leaf] * num_towers
                for leaf, split in zip(leaves, splitters)
            ]
        shards = [tf.nest.pack_sequence_as(batch, part) for part in zip(*parts)]
    return Shards(
        [part["features"] for part in shards], [part["labels"] for part in shards], rows, total
    )


def _as_leaf(leaf):
    """Returns arrays as tensors and everything else as it is."""
    if hasattr(leaf, "__array__") and not isinstance(leaf, (tf.Tensor, tf.compat.v2.Variable)):
        return tf.convert_to_tensor(leaf)
    return leaf


def _splitter(leaf):
    """Returns the function that splits `leaf` by rows, None if it has none."""
    if isinstance(leaf, tf.SparseTensor):
        return _split_sparse
    if isinstance(leaf, tf.RaggedTensor):
        return _split_ragged
    if isinstance(leaf, tf.Tensor) and leaf.shape.rank != 0:
        return _split_dense
    return None


def _shard_rows(leaves, num_towers, need_row_each):
    """Returns the rows of each shard, those of the batch, and operations that check them.

    The rows are integers if the shape of some leaf tells the batch size.

    Args:
        leaves: `(path, leaf)` pairs of the leaves that have rows.
        num_towers: N.
        need_row_each: See `shard`.
    """
    if not leaves:
        raise ValueError(
            "The batch is split by the rows of its tensors, but neither `features` nor `labels` "
            "holds a tensor of rank 1 or more. Let `input_fn` return the batch, or replicate over "
            "one device."
        )
    sizes = {
        path: leaf.shape[:1].as_list()[0] if leaf.shape.rank else None for path, leaf in leaves
    }
    known = {path: rows for path, rows in sizes.items() if rows is not None}
    if len(set(known.values())) > 1:
        raise ValueError(
            f"{_SAME_ROWS} but {', '.join(f'{path} has {rows}' for path, rows in known.items())}. "
            f"{_NOT_IN_BATCH}"
        )
    unknown = [(path, _row_count(leaf)) for path, leaf in leaves if path not in known]
    total = next(iter(known.values())) if known else unknown[0][1]
    checks = []
    if len(leaves) > 1 and unknown:
        paths, counts = zip(*unknown)
        data = [f"{_SAME_ROWS} but the rows of", ", ".join(paths), "are", tf.stack(counts)]
        data += ["in a batch of", total, f"rows. {_NOT_IN_BATCH}"]
        checks.append(tf.Assert(tf.reduce_all(tf.equal(counts, total)), data, len(counts)))
    if need_row_each and not known:
        message = f"{_too_few_rows(num_towers)} Rows of this batch:"
        checks.append(tf.Assert(total >= num_towers, [message, total]))
    elif need_row_each and total < num_towers:
        raise ValueError(f"{_too_few_rows(num_towers)} Rows of this batch: {total}.")
    least, more = total // num_towers, total % num_towers
    if known:
        return [least + (i < more) for i in range(num_towers)], total, checks
    rows = least + tf.cast(tf.range(num_towers) < more, tf.int32)
    return tf.unstack(rows, num=num_towers), total, checks


def _too_few_rows(num_towers):
    return (
        f"A training batch must have at least one row for each of {num_towers} towers. Enlarge "
        "the batch, batch with `drop_remainder=True`, or pass fewer `devices`."
    )


def _row_count(leaf):
    """Returns the rows of `leaf`, an int32 scalar tensor."""
    if isinstance(leaf, tf.SparseTensor):
        return tf.cast(leaf.dense_shape[0], tf.int32)
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.nrows(tf.int32)
    return tf.shape(leaf)[0]


def _spans(rows, total, need_row_each):
    """Returns where in the batch the shards of `rows` rows are.

    A shard without rows is given a copy of the batch's last row, since many a model cannot take
    an empty batch; nothing that is computed from it counts.
    """
    starts = list(itertools.accumulate([0, *rows[:-1]]))
    if need_row_each or all(isinstance(count, int) and count for count in rows):
        return _Spans(starts, rows, overlap=False)
    low, high = (min, max) if isinstance(total, int) else (tf.minimum, tf.maximum)
    least = low(total, 1)  # The batch itself may be empty.
    starts = [low(start, total - least) for start in starts]
    return _Spans(starts, [high(count, least) for count in rows], overlap=True)


def _split_dense(leaf, spans):
    if spans.overlap:
        return _split_ragged(leaf, spans)
    if all(isinstance(count, int) for count in spans.counts):
        return tf.split(leaf, len(spans.counts) if len(set(spans.counts)) == 1 else spans.counts)
    return tf.split(leaf, tf.stack(spans.counts), num=len(spans.counts))


def _split_sparse(leaf, spans):
    # Not `tf.sparse.split`, whose shards cannot overlap.
    shards, rest = [], leaf.dense_shape[1:]
    for start, count in zip(spans.starts, spans.counts):
        first = tf.concat([[tf.cast(start, tf.int64)], tf.zeros_like(rest)], axis=0)
        size = tf.concat([[tf.cast(count, tf.int64)], rest], axis=0)
        shards.append(tf.sparse.slice(leaf, first, size))
    return shards


def _split_ragged(leaf, spans):
    return [leaf[start : start + count] for start, count in zip(spans.starts, spans.counts)]
