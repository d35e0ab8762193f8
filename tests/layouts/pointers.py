"""Random indices that point to what each tower has itself, and what goes with them."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import tensorflow.compat.v1 as tf

from layouts.pointing_batch import Batch

# Sizes of rows where they matter: columns point within them.
COLUMNS = 3


def raw(name: str, **arguments: Any) -> Any:
    """Returns what an operation of a type gives."""
    return getattr(tf.raw_ops, name)(**arguments)


def numbers(given: Any, *shape: int) -> Any:
    """Returns as many numbers as a vector has entries, each of a shape, that depend on these."""
    wide = tf.reshape(tf.cast(given, tf.float64), [-1, *[1] * len(shape)])
    size = 1
    for one in shape:
        size *= one
    return tf.sin(wide * 1.7 + tf.reshape(tf.range(size, dtype=tf.float64), shape))


class Pointer(NamedTuple):
    """Indices of a graph.

    Attributes:
        tensor: They: a vector, or a matrix whose column 0 points.
        entries: Function of a shape that returns what they point to, each entry of that shape.
        is_full: Whether they are in order, and there is one for each entry.
    """

    tensor: Any
    entries: Callable[..., Any]
    is_full: bool = False

    def with_them(self, *shape: int) -> Any:
        """Returns numbers of a shape for each of them."""
        vector = self.tensor if self.tensor.shape.rank == 1 else self.tensor[:, 0]
        return numbers(vector, *shape)

    def choice(self) -> Any:
        """Returns an integer for each of them, 0 or 1."""
        return tf.cast(self.with_them() > 0.3, tf.int32)

    def column(self) -> Any:
        """Returns an index below `COLUMNS` for each of them, of their type."""
        return tf.cast(tf.abs(self.with_them()) * (COLUMNS - 0.01), self.tensor.dtype)

    @property
    def vector(self) -> Pointer:
        """Likewise, but a vector."""
        return self if self.tensor.shape.rank == 1 else self._replace(tensor=self.tensor[:, 0])


def _of_rows(batch: Batch, each: int) -> Callable[..., Any]:
    return lambda *shape: batch.rows(*shape, each=each)


def _of_values(values: Any) -> Callable[..., Any]:
    return lambda *shape: numbers(values, *shape)


def sparse(batch: Batch) -> Pointer:
    """Returns the indices of a sparse leaf."""
    each = batch.one_of(1, 1, 2)
    return Pointer(batch.sparse(COLUMNS, each=each).indices, _of_rows(batch, each))


def filled(batch: Batch) -> Pointer:
    """Returns those of a sparse leaf whose rows all have a value."""
    each = batch.one_of(1, 1, 2)
    indices, _, _, _ = fill(batch.sparse(COLUMNS, each=each))
    return Pointer(indices, _of_rows(batch, each), is_full=True)


def fill(given: tf.SparseTensor) -> Any:
    """Returns what comes out where each row of a sparse tensor is to have a value."""
    return raw(
        "SparseFillEmptyRows",
        indices=given.indices,
        values=given.values,
        dense_shape=given.dense_shape,
        default_value=tf.constant(7, given.values.dtype),
    )


def back(batch: Batch) -> Pointer:
    """Returns where values are among those that all rows have then."""
    _, values, _, places = fill(batch.sparse(COLUMNS))
    return Pointer(places, _of_values(values))


def mask(batch: Batch) -> Pointer:
    """Returns what a mask of rows lets pass."""
    each = batch.one_of(1, 2)
    shape = batch.one_of([], [COLUMNS])
    return Pointer(tf.where(batch.rows(*shape, dtype=tf.bool, each=each)), _of_rows(batch, each))


def mask_of_values(batch: Batch) -> Pointer:
    """Returns which values a mask lets pass."""
    values = batch.sparse(COLUMNS).values
    return Pointer(tf.where(values > 0), _of_values(values))


def words(batch: Batch) -> Pointer:
    """Returns the indices of words of rows."""
    return Pointer(tf.string_split(batch.text()).indices, _of_rows(batch, 1))


def numbered(batch: Batch, dtype: Any = None) -> Pointer:
    """Returns the numbers of rows."""
    each = batch.one_of(1, 2)
    dtype = dtype or batch.one_of(tf.int32, tf.int64)
    size = tf.shape(batch.rows(), out_type=dtype)[0]
    made = tf.range(size * each if each > 1 else size, dtype=dtype)
    return Pointer(made, _of_rows(batch, each), is_full=True)


def partitioned(batch: Batch) -> Pointer:
    """Returns some of other indices."""
    given = batch.one_of(sparse, mask, numbered, back)(batch).vector
    some = tf.dynamic_partition(given.tensor, given.choice(), 2)
    return given._replace(tensor=some[batch.draw.randint(2)], is_full=False)


def taken(batch: Batch) -> Pointer:
    """Returns some of other indices, as others point to them."""
    leaf = batch.sparse(COLUMNS)
    places = tf.where(leaf.values > 0)[:, 0]
    return Pointer(tf.gather(leaf.indices[:, 0], places), _of_rows(batch, 1))


MATRICES = (sparse, filled, mask, mask_of_values, words)
VECTORS = (*MATRICES, back, numbered, partitioned, taken)


def matrix(batch: Batch) -> Pointer:
    """Returns random ones that are a matrix."""
    return batch.one_of(*MATRICES)(batch)


def vector(batch: Batch) -> Pointer:
    """Returns random ones that are a vector."""
    return batch.one_of(*VECTORS)(batch).vector


def full(batch: Batch) -> Pointer:
    """Returns random ones that are a vector, in order, with one for each entry."""
    return batch.one_of(filled, filled, numbered)(batch).vector
