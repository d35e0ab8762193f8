"""Cases of operations on sparse tensors."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from layouts.pointers import COLUMNS, fill, mask, numbers, raw
from layouts.pointing_batch import Batch
from layouts.pointing_cases import case


def _parts(given: tf.SparseTensor, prefix: str, shape: str) -> dict[str, Any]:
    """Returns a sparse tensor as arguments, as the type names them."""
    return {
        f"{prefix}indices": given.indices,
        f"{prefix}values": given.values,
        f"{prefix}{shape}": given.dense_shape,
    }


def _sparse(batch: Batch, *shape: int, **arguments: Any) -> tf.SparseTensor:
    """Returns a sparse leaf, or what has become of one."""
    made = batch.sparse(*(shape or (COLUMNS,)), **arguments)
    if batch.draw.rand() < 0.3:
        indices, values, _, _ = fill(made)
        made = tf.SparseTensor(indices, values, made.dense_shape)
    if batch.draw.rand() < 0.3:
        made = tf.SparseTensor(made.indices, made.values * 2, made.dense_shape)
    return made


def _some(batch: Batch) -> tf.SparseTensor:
    return _sparse(batch, each=batch.one_of(1, 1, 2))


@case("SparseReshape")
def reshape(batch: Batch, name: str) -> None:
    given = batch.one_of(_some(batch), _sparse(batch, 2, COLUMNS), batch.lists())
    size = given.dense_shape[0]
    shapes = [
        tf.stack([size, -1]),
        [-1, 1],
        tf.stack([size, 1, -1]),
        [-1],
        [-1, COLUMNS],
    ]
    shapes = shapes if given.indices.shape[1] > 2 else shapes[:-1]
    for place in batch.draw.permutation(len(shapes))[:3]:
        made = raw(
            name,
            input_indices=given.indices,
            input_shape=given.dense_shape,
            new_shape=tf.cast(shapes[place], tf.int64),
        )
        if place != 3:
            fill(tf.SparseTensor(made[0], given.values, made[1]))
    filled, _ = tf.sparse.fill_empty_rows(given, tf.ones([], given.dtype))
    flat = raw(
        name,
        input_indices=filled.indices,
        input_shape=filled.dense_shape,
        new_shape=tf.constant([-1, 1], tf.int64),
    )
    tf.math.segment_sum(numbers(filled.values), flat[0][:, 0])


@case("SparseFillEmptyRows")
def fill_empty_rows(batch: Batch, name: str) -> None:
    given = batch.one_of(_some, Batch.lists)(batch)
    indices, values, are_empty, places = fill(given)
    tf.gather(values, places)
    tf.where(are_empty)
    tf.math.segment_sum(values, indices[:, 0])


@case("SparseFillEmptyRowsGrad")
def fill_empty_rows_grad(batch: Batch, name: str) -> None:
    _, values, _, places = fill(_some(batch))
    raw(name, reverse_index_map=places, grad_values=numbers(values))


@case("SparseReorder")
def reorder(batch: Batch, name: str) -> None:
    each = batch.one_of(1, 2)
    given = batch.sparse(COLUMNS, each=each, in_order=False)
    made = raw(name, **_parts(given, "input_", "shape"))
    fill(tf.SparseTensor(*made, given.dense_shape))
    tf.math.segment_sum(made[1], made[0][:, 0])


@case("SparseReorder")
def reorder_full(batch: Batch, name: str) -> None:
    given = batch.sparse(COLUMNS)
    indices, values, _, _ = fill(given)
    made = raw(name, input_indices=indices, input_values=values, input_shape=given.dense_shape)
    tf.math.segment_sum(made[1], made[0][:, 0])


@case("SparseToDense")
def to_dense(batch: Batch, name: str) -> None:
    given = batch.one_of(_some, Batch.lists)(batch)
    raw(
        name,
        sparse_indices=given.indices,
        output_shape=given.dense_shape,
        sparse_values=batch.one_of(given.values, tf.constant(2.0, tf.float64)),
        default_value=tf.constant(-1.0, tf.float64),
        validate_indices=False,
    )


@case("SparseToDense")
def to_vector(batch: Batch, name: str) -> None:
    given = mask(batch).vector
    size = tf.shape(given.entries(), out_type=tf.int64)[0]
    shape, places = tf.stack([size]), given.tensor
    if batch.one_of(0, 1):
        places = tf.expand_dims(places, 1)
    raw(
        name,
        sparse_indices=places,
        output_shape=shape,
        sparse_values=given.with_them(),
        default_value=tf.constant(-1.0, tf.float64),
        validate_indices=False,
    )


@case("SparseTensorDenseMatMul")
def matmul(batch: Batch, name: str) -> None:
    each = batch.one_of(1, 2)
    given = _sparse(batch, each=each)
    flips = batch.one_of(True, False)
    dense = tf.reshape(tf.range(COLUMNS * 2.0, dtype=tf.float64), [COLUMNS, 2])
    own = _parts(given, "a_", "shape")
    raw(name, **own, b=tf.transpose(dense) if flips else dense, adjoint_b=flips)
    rows = batch.rows(2, each=each)
    raw(name, **own, b=tf.transpose(rows) if flips else rows, adjoint_a=True, adjoint_b=flips)


@case("SparseReduceSum", "SparseReduceMax")
def reduction(batch: Batch, name: str) -> None:
    given = batch.one_of(_some(batch), _sparse(batch, 2, COLUMNS), batch.lists())
    rank = int(given.indices.shape[1])
    for axes in ([1], [-1], list(range(1, rank)), [0], list(range(rank))):
        raw(
            name,
            **_parts(given, "input_", "shape"),
            reduction_axes=axes,
            keep_dims=bool(batch.draw.randint(2)),
        )


@case("SparseSoftmax")
def softmax(batch: Batch, name: str) -> None:
    given = batch.one_of(_some(batch), _sparse(batch, 2, COLUMNS))
    raw(
        name,
        sp_indices=given.indices,
        sp_values=given.values,
        sp_shape=given.dense_shape,
    )


@case("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv")
def with_dense(batch: Batch, name: str) -> None:
    each = batch.one_of(1, 2)
    given = _sparse(batch, each=each)
    others = [
        batch.rows(COLUMNS, each=each),
        batch.rows(1, each=each),
        tf.range(1.0, COLUMNS + 0.5, dtype=tf.float64),
        tf.range(1.0, COLUMNS + 0.5, dtype=tf.float64)[tf.newaxis],
        tf.constant(2.0, tf.float64),
    ]
    for place in batch.draw.permutation(len(others))[:3]:
        raw(name, **_parts(given, "sp_", "shape"), dense=others[place])


@case("SparseConcat")
def concat(batch: Batch, name: str) -> None:
    each = batch.one_of(1, 2)
    given = [_sparse(batch, each=each), _sparse(batch, 2, each=each)]
    if each == 1:
        given.append(batch.lists())
    if batch.one_of(0, 1):
        given[1] = tf.SparseTensor(given[0].indices, given[0].values * 3, given[0].dense_shape)
    made = raw(
        name,
        indices=[one.indices for one in given],
        values=[one.values for one in given],
        shapes=[one.dense_shape for one in given],
        concat_dim=batch.one_of(1, -1),
    )
    fill(tf.SparseTensor(*made))


@case("SparseCross", "SparseCrossV2", "SparseCrossHashed")
def cross(batch: Batch, name: str) -> None:
    as_words = name == "SparseCrossV2"
    dtype = tf.string if as_words else tf.int64
    each = batch.one_of(1, 1, 2)
    given = [batch.sparse(COLUMNS, dtype=dtype, each=each) for _ in range(batch.draw.randint(3))]
    if given and each == 1:
        given[0] = batch.one_of(given[0], batch.lists(dtype))
    few = batch.draw.randint(2) if given else 2
    dense = [batch.rows(2, dtype=dtype, each=each) for _ in range(few)]
    options: dict[str, Any] = {
        "SparseCross": {
            "hashed_output": True,
            "num_buckets": 100,
            "hash_key": 5,
            "out_type": tf.int64,
            "internal_type": tf.int64,
        },
        "SparseCrossV2": {"sep": "_"},
        "SparseCrossHashed": {"num_buckets": 100, "strong_hash": False, "salt": [1, 2]},
    }
    made = raw(
        name,
        indices=[one.indices for one in given],
        values=[one.values for one in given],
        shapes=[one.dense_shape for one in given],
        dense_inputs=dense,
        **options[name],
    )
    tf.gather(batch.rows(2), made[0][:, 0])


@case("StringSplit")
def split_strings(batch: Batch, name: str) -> None:
    made = raw(name, input=batch.text(), delimiter=" ", skip_empty=batch.one_of(True, False))
    tf.gather(batch.rows(2), made[0][:, 0])


@case("StringSplitV2")
def split_strings_2(batch: Batch, name: str) -> None:
    made = raw(name, input=batch.text(), sep=batch.one_of(" ", ""))
    tf.gather(batch.rows(2), made[0][:, 0])
