"""How a tensor is split by rows, be it dense, sparse or ragged."""

import tensorflow.compat.v1 as tf


def splitter(leaf):
    """Returns the function that splits `leaf` by rows, None if it has none."""
    if isinstance(leaf, tf.SparseTensor):
        return _split_sparse
    if isinstance(leaf, tf.RaggedTensor):
        return _split_ragged
    if isinstance(leaf, tf.Tensor) and leaf.shape.rank != 0:
        return _split_dense
    return None


def _split_dense(leaf, spans):
    if spans.overlap:
        return _split_ragged(leaf, spans)
    if all(isinstance(count, int) for count in spans.counts):
        return tf.split(leaf, len(spans.counts) if len(set(spans.counts)) == 1 else spans.counts)
    return tf.split(leaf, tf.stack(spans.counts), num=len(spans.counts))


def _split_sparse(leaf, spans):
    # Not `tf.sparse.split`, whose shards cannot overlap.
    shards, rest = [], leaf.dense_shape[1:]
    width_of = _own_widths(leaf)
    for start, count in zip(spans.starts, spans.counts):
        first = tf.concat([[tf.cast(start, tf.int64)], tf.zeros_like(rest)], axis=0)
        width = [width_of(start, count)] if width_of else rest
        size = tf.concat([[tf.cast(count, tf.int64)], width], axis=0)
        shards.append(tf.sparse.slice(leaf, first, size))
    return shards


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


def _split_ragged(leaf, spans):
    return [leaf[start : start + count] for start, count in zip(spans.starts, spans.counts)]
