"""Splits dense, sparse and ragged tensors by rows, and counts their rows."""

from __future__ import annotations

import re
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from replicate.compat import op_types

_NOT_IN_ORDER = (
    "The values of a sparse tensor of the batch must be in the order of their rows, since a tower "
    "takes a contiguous range of them. Let `input_fn` return `tf.sparse.reorder` of it."
)
_NO_AXIS = "Each tensor of the batch must have an axis of rows, but"
_NAME_IT = (
    "when it runs. Name it in `unsplit_features`, or let `input_fn` set its static shape, so that "
    "a scalar is known to be one."
)
_COPY = "ReplicateCopyOfRows"  # The name of its gradient.
_OTHER_NUMBERS = (tf.bool, tf.complex64, tf.complex128)
# Operations whose outputs may share memory with objects outside of the graph.
_FROM_OUTSIDE = re.compile(
    "IteratorGetNext.*|OptionalGetValue|(Eager)?PyFunc(Stateless)?|Placeholder(V2)?|QueueDequeue.*"
)


class Spans:
    """First row and number of rows of each shard, integers or int32 scalar tensors.

    Args:
        starts: List of the first rows.
        counts: List of the numbers of rows.
        overlap: Whether shards may have rows in common.
    """

    def __init__(self, starts: list[Any], counts: list[Any], overlap: bool) -> None:
        self.starts = starts
        self.counts = counts
        self.overlap = overlap
        self._windows: dict[int, list[tuple[tf.Tensor, ...]]] = {}

    def times(self, rows: Any) -> Spans:
        """Returns the spans in a batch that has `rows` rows for each row of this one."""
        if isinstance(rows, int) and rows == 1:
            return self  # So that tensors of both batches share `_windows`.
        starts = [start * rows for start in self.starts]
        return Spans(starts, [count * rows for count in self.counts], self.overlap)

    def slices(self, leaf: tf.Tensor, axis: int) -> list[tf.Tensor]:
        """Returns the shards of a dense tensor with rows on `axis`, counted from 0."""
        if axis not in self._windows:  # All tensors with this axis share them.
            before = [0] * axis
            strides = tf.ones([axis + 1], tf.int32)
            self._windows[axis] = [
                (tf.stack([*before, start]), tf.stack([*before, start + count]), strides)
                for start, count in zip(self.starts, self.counts)
            ]
        whole = 2**axis - 1  # Bits of the axes before.
        return [
            tf.strided_slice(leaf, *window, begin_mask=whole, end_mask=whole)
            for window in self._windows[axis]
        ]


Split = Callable[[Any, Spans, int], "list[Any]"]
"""A function of a tensor, the spans of the shards and an axis of rows that returns the shards."""


def splitter(leaf: Any) -> Split | None:
    """Returns the function that splits `leaf`; None if it has no rows."""
    if isinstance(leaf, tf.SparseTensor):
        return _split_sparse
    if isinstance(leaf, tf.RaggedTensor):
        return _split_ragged
    if isinstance(leaf, tf.Tensor) and leaf.shape.rank != 0:
        return _split_dense
    return None


def checked_axis(path: str, leaf: Any, axis: int) -> int:
    """Returns the axis of rows of a tensor of the batch, counted from 0 if its rank is known.

    Args:
        path: Its path, for messages.
        leaf: The tensor, of rank 1 or more.
        axis: The axis in `batch_axis`, which may be negative.

    Raises:
        ValueError: If the tensor has no such axis, or is ragged and the axis is not 0.
    """
    rank = leaf.shape.rank
    if rank is not None and not -rank <= axis < rank:
        raise ValueError(
            f"`batch_axis` must name an axis of the tensor that it is for, but is {axis} for "
            f"{path}, which has the shape {leaf.shape}. Pass a dictionary by names, such as "
            "{'frames': 1}, that leaves out tensors with rows on axis 0."
        )
    axis = axis if rank is None else axis % rank
    if isinstance(leaf, tf.RaggedTensor) and axis != 0:
        raise ValueError(
            "The rows of a ragged tensor are on axis 0, since each row has a different length, but "
            f"`batch_axis` is {axis} for {path}. Leave it out there, or pass a sparse or a padded "
            "tensor."
        )
    return axis


def known_rows(leaf: Any, axis: int) -> int | None:
    """Returns the number of rows in the static shape of `leaf`, None if it is unknown."""
    return leaf.shape.as_list()[axis] if leaf.shape.rank else None


def count_rows(path: str, leaf: Any, axis: int) -> tf.Tensor:
    """Returns the number of rows of the tensor `leaf` at `path`, an int32 scalar tensor."""
    if isinstance(leaf, tf.SparseTensor):
        return tf.cast(leaf.dense_shape[axis], tf.int32)
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.nrows(tf.int32)
    if leaf.shape.rank is not None:
        return tf.shape(leaf)[axis]
    data = [_NO_AXIS, path, "has the shape", tf.shape(leaf), _NAME_IT]
    with tf.control_dependencies([tf.Assert(tf.rank(leaf) > max(axis, -axis - 1), data)]):
        return tf.shape(leaf)[axis]


def _in_separate_memory(leaf: tf.Tensor) -> tf.Tensor:
    """Returns a tensor that operations may overwrite, as they do if no other operation uses it.

    Tensors from `py_func` and from generators of datasets are the memory of NumPy arrays.
    TensorFlow knows this of the tensor, but not of its slices, which a split makes without copying.
    """
    made = leaf.op
    while made.type in op_types.SAME_MEMORY:
        made = made.inputs[1 if made.type == "Split" else 0].op  # `Split` takes the axis first.
    can_copy = leaf.dtype.is_floating or leaf.dtype.is_integer or leaf.dtype in _OTHER_NUMBERS
    if not can_copy or leaf.dtype.is_quantized or not _FROM_OUTSIDE.fullmatch(made.type):
        return leaf
    with tf.get_default_graph().gradient_override_map({"DeepCopy": _COPY}):
        return tf.raw_ops.DeepCopy(x=leaf)


# Code outside of the `model_fn` may take the gradient of the loss with respect to a feature.
tf.RegisterGradient(_COPY)(lambda op, upstream: upstream)


def _split_dense(leaf: tf.Tensor, spans: Spans, axis: int) -> list[tf.Tensor]:
    leaf = _in_separate_memory(leaf)
    if spans.overlap and axis >= 0:
        # Not by `tf.slice`: TensorFlow 1.15's graph optimizer mistakes its -1 for a size.
        return spans.slices(leaf, axis)
    if spans.overlap:  # The rank is unknown, and the axis is counted from the last.
        after = [slice(None)] * (-axis - 1)
        return [
            leaf[(Ellipsis, slice(start, start + count), *after)]
            for start, count in zip(spans.starts, spans.counts)
        ]
    counts = spans.counts
    if all(isinstance(count, int) for count in counts):
        return tf.split(leaf, len(counts) if len(set(counts)) == 1 else counts, axis)
    return tf.split(leaf, tf.stack(counts), axis, num=len(counts))


def _split_sparse(leaf: tf.SparseTensor, spans: Spans, axis: int) -> list[tf.SparseTensor]:
    # Not by `tf.sparse.split`, whose shards cannot overlap.
    shape = leaf.dense_shape
    # Nothing follows the last axis, but `shape[-1 + 1 :]` would be all of the shape.
    before, after = shape[:axis], shape[axis + 1 :] if axis != -1 else shape[:0]
    width_of = _widths_per_shard(leaf) if axis == 0 else None
    shards = []
    for start, count in zip(spans.starts, spans.counts):
        width = [width_of(start, count)] if width_of else after
        first = [tf.zeros_like(before), [tf.cast(start, tf.int64)], tf.zeros_like(after)]
        size = [before, [tf.cast(count, tf.int64)], width]
        shards.append(tf.sparse.slice(leaf, tf.concat(first, axis=0), tf.concat(size, axis=0)))
    return shards


def in_order(leaf: Any, shards: list[Any]) -> list[Any]:
    """Returns the shards of `leaf`, with a check of the order of values in a sparse tensor.

    Its values are those of the shards, concatenated, only if they are in the order of their rows.
    If not, operations that use the returned shards fail with a `tf.errors.InvalidArgumentError`.
    """
    if not isinstance(leaf, tf.SparseTensor):
        return shards
    rows = leaf.indices[:, 0]
    is_so = tf.Assert(tf.reduce_all(rows[1:] >= rows[:-1]), [_NOT_IN_ORDER])
    with tf.control_dependencies([is_so]):
        return [
            tf.SparseTensor(*map(tf.identity, (one.indices, one.values, one.dense_shape)))
            for one in shards
        ]


def _widths_per_shard(leaf: tf.SparseTensor) -> Callable[[Any, Any], tf.Tensor] | None:
    """Returns a function of a shard's start and count that gives its width, an int64 scalar tensor.

    A batch of rows of varying length, as `tf.io.parse_example` gives it for a `VarLenFeature`, is
    as wide as its longest row. A shard is then as wide as its longest row, since a model that
    pads the rows may combine them with tensors that it pads to the rows' lengths. A batch counts as
    such if it is as wide as its longest row, and no row has a gap; otherwise shards are as wide as
    the batch.

    Args:
        leaf: A `tf.SparseTensor`.

    Returns:
        The function; None unless the rank of `leaf` is 2 and its width is unknown to the graph.
    """
    if leaf.shape.rank != 2 or leaf.shape.as_list()[1] is not None:
        return None
    rows, width = tf.unstack(leaf.dense_shape, num=2)
    # Shape [n]: the last column of each row plus 1, or 0 if the row is empty.
    lengths = tf.math.unsorted_segment_max(leaf.indices[:, 1] + 1, leaf.indices[:, 0], rows)
    lengths = tf.maximum(lengths, 0)
    without_gaps = tf.equal(tf.reduce_sum(lengths), tf.size(leaf.values, out_type=tf.int64))
    varies = without_gaps & tf.equal(_longest(lengths), width)
    return lambda start, count: tf.where_v2(varies, _longest(lengths[start : start + count]), width)


def _longest(lengths: tf.Tensor) -> tf.Tensor:
    return tf.maximum(tf.reduce_max(lengths), 0)  # 0 if there are no rows.


def _split_ragged(leaf: tf.RaggedTensor, spans: Spans, axis: int) -> list[tf.RaggedTensor]:
    del axis  # It is 0.
    leaf = leaf.with_flat_values(_in_separate_memory(leaf.flat_values))
    return [leaf[start : start + count] for start, count in zip(spans.starts, spans.counts)]
