"""Gives the program of one tower its rows, which stand for those of each tower."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.partition.program import SCOPE, PerTowerTensor, Program


def give_rows(shards: Any, program: Program) -> tuple[Any, Any]:
    """Returns the first tower's features and labels, and records those of the others.

    The number of rows is part of static shapes only if it is known, and the same in all towers.

    Args:
        shards: The `Shards` of the batch.
        program: The `Program`, in which the tensors of all towers are recorded.
    """
    counts = shards.rows
    known = all(isinstance(count, int) for count in counts)
    is_static = known and counts[0] and len(set(counts)) == 1
    given: Sequence[Any] = list(zip(shards.features, shards.labels))
    if not is_static:
        given = _of_unknown_rows(given)
    leaves_of_first = []
    by_tower = [tf.nest.flatten(pair, expand_composites=True) for pair in given]
    for axis, *leaves in zip(_axes(shards), *by_tower):
        if all(leaf is leaves[0] for leaf in leaves):  # A tensor without rows is not split.
            leaves_of_first.append(leaves[0])
            continue
        # One operation for each: TensorFlow's graph optimizer has confused outputs of one split.
        each: list[Any] = []
        for leaf, device in zip(leaves, program.devices):
            with tf.device(device), tf.name_scope(SCOPE):
                # The model must not see tower 0's number of rows: its graph is copied for others.
                if not is_static and leaf.shape.rank and not each:
                    shape = leaf.shape.as_list()
                    shape[axis] = None
                    each.append(tf.placeholder_with_default(leaf, shape))
                else:
                    each.append(tf.identity(leaf))
        program.per_tower.append(PerTowerTensor(each[0], tuple(each)))
        leaves_of_first.append(each[0])
    features, labels = tf.nest.pack_sequence_as(given[0], leaves_of_first, expand_composites=True)
    return features, labels


def _of_unknown_rows(given: Sequence[Any]) -> Sequence[Any]:
    """Returns shards whose ragged tensors do not know their number of rows.

    A ragged tensor keeps that number when it is packed again from other components, so each copy
    would have tower 0's. Tensors that all towers share stay as they are.

    Args:
        given: Pairs of features and labels, one for each tower.
    """
    made: list[list[Any]] = [[] for _ in given]
    for leaves in zip(*map(tf.nest.flatten, given)):
        is_shard = isinstance(leaves[0], tf.RaggedTensor) and leaves[0] is not leaves[-1]
        for made_of_pair, leaf in zip(made, leaves):
            made_of_pair.append(_without_size(leaf) if is_shard else leaf)
    return [tf.nest.pack_sequence_as(pair, leaves) for pair, leaves in zip(given, made)]


def _without_size(leaf: Any) -> Any:
    splits = tf.placeholder_with_default(leaf.row_splits, [None])
    return tf.RaggedTensor.from_row_splits(leaf.values, splits, validate=False)


def _axes(shards: Any) -> Sequence[int]:
    """Returns the axis of rows of each tensor in a shard, including components of composite ones.

    The components of a sparse tensor have their entries on axis 0.
    """
    leaves = tf.nest.flatten((shards.features[0], shards.labels[0]))
    found = []
    for leaf, axis in zip(leaves, shards.axes or [0] * len(leaves)):
        parts = tf.nest.flatten(leaf, expand_composites=True)
        found += [axis if part is leaf else 0 for part in parts]
    return found
