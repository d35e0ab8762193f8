"""Cases of reductions of what rows have any number of."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from layouts.pointers import filled, full, raw, vector
from layouts.pointing_batch import Batch
from layouts.pointing_cases import case

WORDS = 5


@case("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def unsorted(batch: Batch, name: str) -> None:
    ids = vector(batch)
    shape = batch.one_of([], [2])
    size = tf.shape(ids.entries(), out_type=batch.one_of(tf.int32, tf.int64))[0]
    raw(name, data=ids.with_them(*shape), segment_ids=ids.tensor, num_segments=size)


@case("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def by_sorted_ids(batch: Batch, name: str) -> None:
    ids = full(batch)
    shape = batch.one_of([], [2])
    raw(name, data=ids.with_them(*shape), segment_ids=ids.tensor)


def _taken(ids: Any) -> Any:
    """Returns an index of a word for each of some indices."""
    return tf.cast(tf.abs(ids.with_them()) * (WORDS - 0.01), tf.int32)


def _table() -> Any:
    return tf.reshape(tf.cos(tf.range(2.0 * WORDS, dtype=tf.float64)), [WORDS, 2])


@case("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
def of_table(batch: Batch, name: str) -> None:
    ids = full(batch)
    raw(name, data=_table(), indices=_taken(ids), segment_ids=tf.cast(ids.tensor, tf.int32))


@case("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
def of_own(batch: Batch, name: str) -> None:
    ids = filled(batch).vector
    as_int = tf.cast(ids.tensor, tf.int32)
    raw(name, data=ids.entries(2), indices=as_int, segment_ids=as_int)


_WITH_NUMBER = tuple(f"SparseSegment{kind}WithNumSegments" for kind in ("Sum", "Mean", "SqrtN"))


@case(*_WITH_NUMBER)
def of_so_many(batch: Batch, name: str) -> None:
    ids = full(batch)
    size = tf.shape(ids.entries())[0]
    as_int = tf.cast(ids.tensor, tf.int32)
    raw(name, data=_table(), indices=_taken(ids), segment_ids=as_int, num_segments=size)


@case(*_WITH_NUMBER)
def of_some_rows(batch: Batch, name: str) -> None:
    leaf = batch.sparse(3, dtype=tf.int32)
    size = tf.cast(leaf.dense_shape[0], tf.int32)
    ids = tf.cast(leaf.indices[:, 0], tf.int32)
    raw(name, data=_table(), indices=leaf.values, segment_ids=ids, num_segments=size)
    raw(name, data=batch.rows(2), indices=ids, segment_ids=ids, num_segments=size)


@case("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")
def gradient(batch: Batch, name: str) -> None:
    batch.need_rows()  # Without any, one device gives what happens to be in memory.
    ids = full(batch)
    raw(
        name,
        grad=ids.entries(2),
        indices=_taken(ids),
        segment_ids=tf.cast(ids.tensor, tf.int32),
        output_dim0=WORDS,
    )
