"""How a tensor is split by rows, be it dense, sparse or ragged, and how many it has."""

import re

import tensorflow.compat.v1 as tf

_NOT_IN_ORDER = (
    "The values of a sparse tensor of the batch must be in the order of their rows, since a tower "
    "takes those of its rows one after the other. Let `input_fn` return `tf.sparse.reorder` of it."
)
_OTHER_NUMBERS = (tf.bool, tf.complex64, tf.complex128)
# Operations that give what was made elsewhere, and those that give it on.
_FROM_OUTSIDE = re.compile(
    "IteratorGetNext.*|OptionalGetValue|(Eager)?PyFunc(Stateless)?|Placeholder(V2)?|QueueDequeue.*"
)
_SAME_MEMORY = frozenset(
    ["Identity", "Reshape", "Squeeze", "ExpandDims", "StridedSlice", "Slice", "Split", "SplitV"]
    + ["Unpack", "Bitcast", "StopGradient", "EnsureShape", "PlaceholderWithDefault"]
)


class Spans:
    """First row and number of rows of each shard, integers or int32 scalar tensors.

    Args:
        starts: List of the first rows.
        counts: List of how many there are.
        overlap: Whether shards may have rows in common.
    """

    def __init__(self, starts, counts, overlap):
        self.starts = starts
        self.counts = counts
        self.overlap = overlap
        self._windows = {}

    def times(self, rows):
        """Returns the spans in a batch that has `rows` rows for each row of this one."""
        if isinstance(rows, int) and rows == 1:
            return self
        starts = [start * rows for start in self.starts]
        return Spans(starts, [count * rows for count in self.counts], self.overlap)

    def slices(self, leaf, axis):
        """Returns the shards of a dense tensor with rows on `axis`, of which 0 is the first."""
        if axis not in self._windows:  # Made once for all tensors.
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


def splitter(leaf):
    """Returns the function of `leaf`, spans and an axis that splits it; None if it has no rows."""
    if isinstance(leaf, tf.SparseTensor):
        return _split_sparse
    if isinstance(leaf, tf.RaggedTensor):
        return _split_ragged
    if isinstance(leaf, tf.Tensor) and leaf.shape.rank != 0:
        return _split_dense
    return None


def checked_axis(path, leaf, axis):
    """Returns the axis of rows of a tensor of the batch, counted from 0 if its rank is known.

    Args:
        path: Its path, for messages.
        leaf: The tensor, of rank 1 or more.
        axis: The axis as `batch_axis` has it.

    Raises:
        ValueError: If the tensor has no such axis, or is ragged and the axis is not 0.
    """
    rank = leaf.shape.rank
    if rank is not None and not -rank <= axis < rank:
        raise ValueError(
            f"`batch_axis` must name an axis of the tensor that it is for, but is {axis} for "
            f"{path}, which has the shape {leaf.shape}. Pass a dictionary by names, such as "
            "{'frames': 1}, that leaves out what has its rows on axis 0."
        )
    axis = axis if rank is None else axis % rank
    if isinstance(leaf, tf.RaggedTensor) and axis != 0:
        raise ValueError(
            "The rows of a ragged tensor are on axis 0, of which each has a length of its own, but "
            f"`batch_axis` is {axis} for {path}. Leave it out there, or pass a sparse or a padded "
            "tensor."
        )
    return axis


def known_rows(leaf, axis):
    """Returns the rows of `leaf` that its static shape tells, None if it tells none."""
    return leaf.shape.as_list()[axis] if leaf.shape.rank else None


def count_rows(leaf, axis):
    """Returns the rows of `leaf`, an int32 scalar tensor."""
    if isinstance(leaf, tf.SparseTensor):
        return tf.cast(leaf.dense_shape[axis], tf.int32)
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.nrows(tf.int32)
    return tf.shape(leaf)[axis]


def _in_own_memory(leaf):
    """Returns a tensor that operations may overwrite, as they do with what nobody else takes.

    What `py_func` returns, and generators of datasets, is the memory of a NumPy array. TensorFlow
    knows that of the tensor, but not of slices of it, which a split makes without copying.
    """
    made = leaf.op
    while made.type in _SAME_MEMORY:
        made = made.inputs[1 if made.type == "Split" else 0].op
    can_copy = leaf.dtype.is_floating or leaf.dtype.is_integer or leaf.dtype in _OTHER_NUMBERS
    if not can_copy or leaf.dtype.is_quantized or not _FROM_OUTSIDE.fullmatch(made.type):
        return leaf
    return tf.raw_ops.DeepCopy(x=leaf)


def _split_dense(leaf, spans, axis):
    leaf = _in_own_memory(leaf)
    if spans.overlap and axis >= 0:
        # Not by `tf.slice`, of which TensorFlow 1.15's optimiser takes -1 for a size.
        return spans.slices(leaf, axis)
    if spans.overlap:  # Of unknown rank, with an axis that is counted from the last.
        after = [slice(None)] * (-axis - 1)
        return [
            leaf[(Ellipsis, slice(start, start + count), *after)]
            for start, count in zip(spans.starts, spans.counts)
        ]
    counts = spans.counts
    if all(isinstance(count, int) for count in counts):
        return tf.split(leaf, len(counts) if len(set(counts)) == 1 else counts, axis)
    return tf.split(leaf, tf.stack(counts), axis, num=len(counts))


def _split_sparse(leaf, spans, axis):
    # Not `tf.sparse.split`, whose shards cannot overlap.
    shape = leaf.dense_shape
    before, after = shape[:axis], shape[axis + 1 :] if axis != -1 else shape[:0]
    width_of = _own_widths(leaf) if axis == 0 else None
    shards = []
    for start, count in zip(spans.starts, spans.counts):
        width = [width_of(start, count)] if width_of else after
        first = [tf.zeros_like(before), [tf.cast(start, tf.int64)], tf.zeros_like(after)]
        size = [before, [tf.cast(count, tf.int64)], width]
        shards.append(tf.sparse.slice(leaf, tf.concat(first, axis=0), tf.concat(size, axis=0)))
    return shards


def in_order(leaf, shards):
    """Returns shards that exist only if their values are, in turn, all of the leaf's.

    Those of a sparse tensor are if they are in the order of their rows. It is checked where they
    are used, with `tf.errors.InvalidArgumentError`.
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


def _own_widths(leaf):
    """Returns a function of a shard's start and count that gives its width, an int64 scalar tensor.

    Rows of varying length, as `tf.io.parse_example` gives them for a `VarLenFeature`, are as wide
    as the longest, so those of a shard are as wide as the longest of its own: a model that pads
    them may combine them with what it pads by their lengths. A batch is taken for such rows if it
    is as wide as its longest, and no row has a gap; otherwise shards are as wide as the batch.

    Args:
        leaf: A `tf.SparseTensor`. None is returned unless its rank is 2, and its width not known to
            the graph.
    """
    if leaf.shape.rank != 2 or leaf.shape.as_list()[1] is not None:
        return None
    rows, width = tf.unstack(leaf.dense_shape, num=2)
    # Of shape [n]: one more than the last column of each row, 0 if it is empty.
    lengths = tf.math.unsorted_segment_max(leaf.indices[:, 1] + 1, leaf.indices[:, 0], rows)
    lengths = tf.maximum(lengths, 0)
    without_gaps = tf.equal(tf.reduce_sum(lengths), tf.size(leaf.values, out_type=tf.int64))
    varies = without_gaps & tf.equal(_longest(lengths), width)
    return lambda start, count: tf.where_v2(varies, _longest(lengths[start : start + count]), width)


def _longest(lengths):
    return tf.maximum(tf.reduce_max(lengths), 0)  # Of no rows, too.


def _split_ragged(leaf, spans, axis):
    del axis  # 0
    leaf = leaf.with_flat_values(_in_own_memory(leaf.flat_values))
    return [leaf[start : start + count] for start, count in zip(spans.starts, spans.counts)]
