"""The registry of cases of rules that know indices: graphs with an operation of a type.

A case is called with a batch and the type; it adds operations to the default graph. Their outputs
are compared one by one, so it need not return any.
"""

from __future__ import annotations

import importlib
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from layouts.pointers import COLUMNS, mask, matrix, numbered, numbers, raw, vector
from layouts.pointing_batch import Batch

Case = Callable[[Batch, str], Any]

_cases: dict[str, list[Case]] = {}


def case(*types: str) -> Callable[[Case], Case]:
    """Enters a function as a case of types; several of a type take turns."""

    def enter(function: Case) -> Case:
        for name in types:
            _cases.setdefault(name, []).append(function)
        return function

    return enter


def cases_of() -> dict[str, list[Case]]:
    """Returns all cases, by type."""
    for name in ("blocks", "parsing", "segments", "sparse"):
        importlib.import_module(f"layouts.pointing_cases_{name}")
    return dict(_cases)


# How indices come about.


@case("Where")
def where_rows(batch: Batch, name: str) -> None:
    dtype = batch.one_of(tf.bool, tf.int64)
    shape = batch.one_of([], [COLUMNS], [2, COLUMNS])
    found = raw(name, condition=batch.rows(*shape, dtype=dtype, each=batch.one_of(1, 2)))
    tf.math.segment_sum(numbers(found[:, 0]), found[:, 0])


@case("Where")
def where_values(batch: Batch, name: str) -> None:
    found = raw(name, condition=vector(batch).choice())
    raw(name, condition=tf.cast(found[:, 0] % 2, tf.bool))


@case("Where")
def where_twice(batch: Batch, name: str) -> None:
    of_rows, of_values = batch.rows(dtype=tf.bool), batch.sparse(COLUMNS).values > 0
    for condition, own in ((of_rows, lambda: batch.rows(2)), (of_values, lambda: of_values)):
        first, second = (raw(name, condition=condition)[:, 0] for _ in range(2))
        numbers(first, 2) * numbers(second)[:, tf.newaxis]
        tf.gather(own(), first)
        tf.boolean_mask(own(), condition)


@case("Range")
def number_rows(batch: Batch, name: str) -> None:
    given = numbered(batch)
    tf.gather(given.entries(2), given.tensor)


@case("DynamicPartition")
def partition_rows(batch: Batch, name: str) -> None:
    shape = batch.one_of([], [2], [2])
    by = batch.rows(*shape[: batch.draw.randint(2)], dtype=tf.int32) % 3
    raw(name, data=batch.rows(*shape), partitions=by, num_partitions=3)


@case("DynamicPartition")
def partition_indices(batch: Batch, name: str) -> None:
    given = batch.one_of(matrix, vector)(batch)
    made = raw(name, data=given.tensor, partitions=given.choice(), num_partitions=2)
    of_numbers = raw(name, data=given.with_them(2), partitions=given.choice(), num_partitions=2)
    vectors = [own if own.shape.rank == 1 else own[:, 0] for own in made]
    for own, those in zip(vectors, of_numbers):
        tf.reduce_sum(tf.gather(given.entries(2), own) * those, 0)


@case("DynamicStitch", "ParallelDynamicStitch")
def stitch(batch: Batch, name: str) -> None:
    given = numbered(batch, tf.int32)
    by = tf.cast(given.entries() > 0, tf.int32)
    indices = tf.dynamic_partition(given.tensor, by, 2)
    some, others = tf.dynamic_partition(given.entries(2), by, 2)
    raw(name, indices=indices, data=[some * 2, tf.tanh(others)])


# Operations that keep indices.


@case("Identity", "StopGradient", "PreventGradient", "Snapshot")
def keep(batch: Batch, name: str) -> None:
    given = batch.one_of(matrix, vector)(batch)
    made = given._replace(tensor=raw(name, input=given.tensor)).vector
    tf.gather(given.entries(), made.tensor)


@case("Cast")
def cast(batch: Batch, name: str) -> None:
    given = batch.one_of(matrix, vector)(batch)
    dtype = batch.one_of(tf.int32, tf.int32, tf.int64, tf.float64, tf.int16)
    made = raw(name, x=given.tensor, DstT=dtype)
    if dtype in (tf.int32, tf.int64):
        tf.gather(given.entries(), given._replace(tensor=made).vector.tensor)


_TAKEN = (
    lambda one: one[:, 0],
    lambda one: one[:, :1],
    lambda one: one[:, -1],
    lambda one: one[:, 1:],
    lambda one: one[:],
    lambda one: one[:, ::-1],
    lambda one: one[: tf.shape(one)[0], 0],
    lambda one: one[1:, 0],
    lambda one: one[:, tf.newaxis, 0],
    lambda one: one[..., 0],
    lambda one: one[:, :-1],
    lambda one: one[:, ::2],
    lambda one: one[:, -1:],
    lambda one: one[::-1],
    lambda one: one[:, -3:],
    lambda one: one[:, 2:],
)


@case("StridedSlice")
def take_half_of_the_numbers(batch: Batch, name: str) -> None:
    n = tf.shape(batch.rows(2))[0]
    pairs = tf.stack([tf.range(2 * n), tf.range(2 * n) % 3], 1)
    batch.one_of(pairs[:n], pairs[n:]) + 1


@case("StridedSlice")
def take_columns(batch: Batch, name: str) -> None:
    given = matrix(batch)
    for place in batch.draw.permutation(len(_TAKEN))[:4]:
        _TAKEN[place](given.tensor)
    tf.gather(given.entries(2), given.tensor[:, 0])


@case("Slice")
def slice_columns(batch: Batch, name: str) -> None:
    given = matrix(batch)
    for begin, size in (
        ([0, 0], [-1, 1]),
        ([0, 0], [-1, -1]),
        ([0, 1], [-1, -1]),
        ([0, 0], [-1, 0]),
    ):
        raw(name, input=given.tensor, begin=begin, size=size)


@case("Reshape")
def reshape(batch: Batch, name: str) -> None:
    given = vector(batch)
    size = tf.shape(given.tensor)[0]
    wide = raw(name, tensor=given.tensor, shape=batch.one_of([-1, 1], tf.stack([size, 1])))
    raw(name, tensor=wide, shape=batch.one_of([-1], tf.stack([size])))
    raw(name, tensor=wide, shape=[-1, 1, 1])
    tf.gather_nd(given.entries(2), wide)


@case("ExpandDims")
def expand(batch: Batch, name: str) -> None:
    given = vector(batch)
    wide = raw(name, input=given.tensor, axis=batch.one_of(1, -1))
    raw(name, input=given.tensor, axis=0)
    tf.gather_nd(given.entries(2), wide)


@case("Squeeze")
def squeeze(batch: Batch, name: str) -> None:
    given = vector(batch)
    made = raw(name, input=tf.expand_dims(given.tensor, 1), axis=batch.one_of([1], [-1]))
    tf.gather(given.entries(2), made)


@case("ConcatV2")
def concat(batch: Batch, name: str) -> None:
    given = vector(batch)
    wide, column = tf.expand_dims(given.tensor, 1), tf.expand_dims(given.column(), 1)
    axis = batch.one_of(1, -1)
    made = raw(name, values=[wide, column], axis=axis)
    raw(name, values=[column, wide], axis=axis)
    raw(name, values=[wide, wide], axis=axis)
    raw(name, values=[wide, wide], axis=0)
    tf.gather_nd(given.entries(COLUMNS), made)


@case("Pack")
def pack(batch: Batch, name: str) -> None:
    given = vector(batch)
    axis = batch.one_of(1, -1)
    made = raw(name, values=[given.tensor, given.column()], axis=axis)
    raw(name, values=[given.column(), given.tensor], axis=axis)
    raw(name, values=[given.tensor, given.tensor], axis=0)
    tf.gather_nd(given.entries(COLUMNS), made)


@case("Unpack")
def unpack(batch: Batch, name: str) -> None:
    given = matrix(batch)
    columns = raw(name, value=given.tensor, num=given.tensor.shape[1], axis=batch.one_of(1, -1))
    tf.gather(given.entries(2), columns[0])


@case("Split")
def split(batch: Batch, name: str) -> None:
    given = matrix(batch)
    many, axis = int(given.tensor.shape[1]), batch.one_of(1, -1)
    columns = raw(name, axis=axis, value=given.tensor, num_split=many)
    tf.gather_nd(given.entries(2), columns[0])


# Operations that read or write entries by indices.


@case("Gather", "GatherV2")
def gather(batch: Batch, name: str) -> None:
    given = vector(batch)
    axis = {"axis": 0} if name == "GatherV2" else {}
    shape = batch.one_of([], [2])
    raw(name, params=given.entries(*shape), indices=given.tensor, **axis)
    raw(name, params=given.entries(*shape), indices=tf.expand_dims(given.tensor, 1), **axis)


@case("Gather", "GatherV2")
def gather_indices(batch: Batch, name: str) -> None:
    leaf = batch.sparse(COLUMNS)
    places = tf.where(leaf.values > batch.one_of(0, 9))[:, 0]
    axis = {"axis": 0} if name == "GatherV2" else {}
    some = raw(name, params=leaf.indices, indices=places, **axis)
    rows = raw(name, params=leaf.indices[:, 0], indices=places, **axis)
    raw(name, params=batch.rows(2), indices=rows, **axis)
    raw(name, params=leaf.indices[:, 0], indices=tf.expand_dims(places, 1), **axis)
    raw(name, params=rows, indices=tf.where(tf.gather(leaf.values, places) > 1)[:, 0], **axis)
    tf.gather_nd(batch.rows(COLUMNS), some)


@case("GatherNd")
def gather_nd(batch: Batch, name: str) -> None:
    given = vector(batch)
    wide = tf.expand_dims(given.tensor, 1)
    raw(name, params=given.entries(2), indices=wide)
    both = tf.stack([given.tensor, given.column()], 1)
    raw(name, params=given.entries(*batch.one_of([COLUMNS], [COLUMNS, 2])), indices=both)


@case("ScatterNd")
def scatter_nd(batch: Batch, name: str) -> None:
    given = batch.one_of(vector, lambda own: mask(own).vector)(batch)
    size = tf.shape(given.entries(), out_type=given.tensor.dtype)[0]
    wide = tf.expand_dims(given.tensor, 1)
    raw(name, indices=wide, updates=given.with_them(), shape=[size])
    raw(name, indices=wide, updates=given.with_them(2), shape=tf.stack([size, 2]))
    both = tf.stack([given.tensor, given.column()], 1)
    raw(name, indices=both, updates=given.with_them(), shape=tf.stack([size, COLUMNS]))
