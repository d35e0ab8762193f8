"""The rows at which copies of the model begin: each tower's shard in the place of tower 0's."""

from typing import Any, Dict, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat.graph import id_of

_SCOPE = "replicate/towers/"


class Boundary(NamedTuple):
    """What copies of the model have others of.

    Attributes:
        features: Tower 0's.
        labels: Likewise.
        rows: How many rows each tower has; None if they have not equally many, or it is not known.
        axes: Axes of rows that are not 0, by ids of the operations that give the tensors.
    """

    features: Any
    labels: Any
    rows: Any
    axes: Dict[int, int]


def put_rows(shards, devices, copies):
    """Returns the `Boundary` of shards.

    The rows are only known, and part of static shapes, if all towers have as many.

    Args:
        shards: The `Shards`.
        devices: Device strings of the towers.
        copies: The `Copies`, which are told.
    """
    counts = shards.rows
    known = all(isinstance(count, int) for count in counts)
    rows = counts[0] if known and counts[0] and len(set(counts)) == 1 else None
    given = list(zip(shards.features, shards.labels))
    if rows is None:
        given = _of_unknown_rows(given)
    batches = [tf.nest.flatten(pair, expand_composites=True) for pair in given]
    own, axes = [], {}
    for axis, *leaves in zip(_axes(shards), *batches):
        if all(leaf is leaves[0] for leaf in leaves):
            own.append(leaves[0])
            continue
        # Each by itself: TensorFlow's optimiser has mistaken the outputs of one split for another.
        each = []
        for leaf, device in zip(leaves, devices):
            with tf.device(device), tf.name_scope(_SCOPE):
                if rows is None and leaf.shape.rank and not each:
                    shape = leaf.shape.as_list()
                    shape[axis] = None
                    each.append(tf.placeholder_with_default(leaf, shape))
                else:
                    each.append(tf.identity(leaf))
        copies.put(each, on_their_towers=True)
        own.append(each[0])
        if axis:
            axes[id_of(each[0].op)] = axis
    whole = tf.nest.pack_sequence_as(given[0], own, expand_composites=True)
    return Boundary(*whole, rows, axes)


def _of_unknown_rows(given):
    """Returns shards whose ragged tensors do not say by themselves how many rows they have.

    Else they would say so of whatever they are packed from, and each copy would have tower 0's
    number. What all towers have is as it is.

    Args:
        given: Pairs of features and labels, one for each tower.
    """
    made = [[] for _ in given]
    for leaves in zip(*map(tf.nest.flatten, given)):
        is_shard = isinstance(leaves[0], tf.RaggedTensor) and leaves[0] is not leaves[-1]
        for own, leaf in zip(made, leaves):
            own.append(_without_size(leaf) if is_shard else leaf)
    return [tf.nest.pack_sequence_as(pair, own) for pair, own in zip(given, made)]


def _without_size(leaf):
    splits = tf.placeholder_with_default(leaf.row_splits, [None])
    return tf.RaggedTensor.from_row_splits(leaf.values, splits, validate=False)


def _axes(shards):
    """Returns the axis of rows of each tensor in a shard, those that others are made of included.

    A sparse tensor is made of tensors with a row for each of its entries.
    """
    leaves = tf.nest.flatten((shards.features[0], shards.labels[0]))
    found = []
    for leaf, axis in zip(leaves, shards.axes or [0] * len(leaves)):
        parts = tf.nest.flatten(leaf, expand_composites=True)
        found += [axis if part is leaf else 0 for part in parts]
    return found


def warn_of_padding(features, labels):
    """Warns if a sparse entry, whose shards have widths of their own, is made dense.

    Args:
        features: Tower 0's, the model built of them.
        labels: Likewise.
    """
    padded = padding(features, labels)
    if padded:
        tf.logging.warning(
            "replicate: a sparse entry of the batch is made dense (%s), where each tower pads it "
            "to the longest of its own rows, and one device to the longest of all. Where padding "
            "counts, as in a mean over it, pad to a fixed width.",
            ", ".join(op.name for op in padded),
        )


def padding(features, labels):
    """Returns the operations that make sparse entries of a batch dense, for each entry the first.

    Args:
        features: Tower 0's.
        labels: Likewise.
    """
    sparse = [
        leaf
        for leaf in tf.nest.flatten((features, labels))
        if isinstance(leaf, tf.SparseTensor) and _has_own_width(leaf)
    ]
    return [ops[0] for ops in map(_made_dense_by, sparse) if ops]


def _has_own_width(leaf):
    shape = leaf.shape
    return shape.rank in (None, 2) and (shape.rank is None or shape.as_list()[1] is None)


def _made_dense_by(leaf):
    takers = list(leaf.dense_shape.consumers())
    takers += [after for op in takers if op.type == "Cast" for after in op.outputs[0].consumers()]
    return [op for op in takers if op.type == "SparseToDense"]
