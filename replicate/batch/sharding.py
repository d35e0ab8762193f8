"""Splits a batch into shards, one per tower.

The first `n mod N` of N shards of a batch of n rows get one row more than the others, as in
`tf.sparse.split`, so that dense, sparse and ragged leaves stay aligned. Rows are on axis 0, or on
the axis in `batch_axis`, as in time-major tensors of shape [time, n, ...].

A step may take several batches, such as one for training and one for validation: if features and
labels are dicts with the same keys, each key holds a separate batch. Its rows are a multiple of
those of the smallest, which counts as *the* batch, and it is split in the same proportion. So are
tensors of one batch that have several entries for each row; see `other_sizes`.

A Python list of numbers or strings is data, as for `tf.convert_to_tensor`, and split by rows; a
list of tensors is a structure. In tuples and dicts, numbers and strings are not data.
"""

from __future__ import annotations

import collections.abc
import itertools
from typing import Any, Hashable, Iterable, Mapping, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.batch import entries, other_sizes, row_counts, splitting
from replicate.compat import graph as graph_lib

SHARD_SCOPE = "replicate/shard/"  # Name scope of the operations that make shards.
PREFETCH_SCOPE = "replicate/prefetch/"  # Name scope of those that stage the next step's shards.

_A_LIST = " (a Python list)"  # Follows the path of a Python list in messages.


class Split(NamedTuple):
    """A leaf of features or labels that was split.

    Attributes:
        path: Its path, for messages.
        leaf: The dense, sparse or ragged tensor.
        axis: Its axis of rows.
        per_row: The number of entries of each row on that axis, None if known only at run time.
        shards: Its N shards.
    """

    path: str
    leaf: Any
    axis: int
    per_row: int | None
    shards: Sequence[Any]


class Shards(NamedTuple):
    """The shards of one batch.

    Attributes:
        features: N structures like the batch's features, one per tower.
        labels: N structures like the batch's labels.
        rows: The number of rows of the batch in each shard, which may be 0: N integers, or N int32
            scalar tensors if known only at run time.
        total: The number of rows of the batch, an integer or an int32 scalar tensor.
        axes: The axis of rows of each leaf of features and labels; () if it is 0 in all of them.
        split: The `Split` of each leaf of features and labels that was split.
        starts: The first row of the batch that each shard holds.
        held: The number of rows that each shard holds; a shard without rows holds a copy of the
            batch's last row.
    """

    features: list[Any]
    labels: list[Any]
    rows: list[Any]
    total: Any
    axes: Sequence[int] = ()
    split: Sequence[Split] = ()
    starts: Sequence[Any] = ()
    held: Sequence[Any] = ()


def shard(
    features: Any,
    labels: Any,
    num_towers: int,
    need_row: bool,
    *,
    unsplit_features: Iterable[str] = (),
    batch_axis: int | Mapping[str, int] = 0,
    same_rows: bool = False,
) -> Shards:
    """Splits features and labels by rows, along axis 0 or the axis in `batch_axis`.

    Args:
        features: Nested structure (dict, list, tuple, namedtuple) of tensors, `tf.SparseTensor`s
            and `tf.RaggedTensor`s of shape [n, ...], the same n in all of a batch, and of Python
            lists of n numbers or strings, or of lists of these, which become tensors. Every tower
            gets all scalars, None and other objects that are not tensors, and tensors whose static
            shapes tell that they have no rows.
        labels: Like `features`; None if there are none. If both are dicts with the same keys, each
            key holds a separate batch, of n times a whole number of rows.
        num_towers: N. If the batch has fewer rows, the remaining shards hold a copy of its last
            row, with weight 0.
        need_row: Whether the batch must have a row, as in training.
        unsplit_features: Iterable of names of entries that every tower gets complete, of any shape;
            see `entries.unsplit_paths`. Names of labels need no entry if `labels` is None.
        batch_axis: The axis of rows, or a dictionary of axes by names; see
            `entries.axes_by_path`. Its names are like those of `unsplit_features`. Ragged
            tensors always have their rows on axis 0.
        same_rows: Whether a batch with tensors of different static sizes is an error.

    Returns:
        A `Shards`.

    Raises:
        TypeError: As `entries.unsplit_paths` and `axes_by_path` do.
        ValueError: If no leaf has rows, if the leaves differ in rows, or if the batch needs a row
            and has none; if these are known only at run time, the first such step raises a
            `tf.errors.InvalidArgumentError` before the towers compute. If a Python list with
            numbers or strings cannot be converted to a tensor, if a name in `unsplit_features` or
            `batch_axis` matches no entry, or if a tensor does not have the axis that it names.
    """
    unsplit = entries.unsplit_paths(unsplit_features)
    axis_by_path = entries.axes_by_path(batch_axis)
    with tf.device("/device:CPU:0"), tf.name_scope(SHARD_SCOPE):
        lists: set[str] = set()
        batch = {
            key: entries.lists_as_tensors(structure, key, unsplit, lists)
            for key, structure in (("features", features), ("labels", labels))
        }
        paths = [path for path, _ in graph_lib.flatten_with_paths(batch)]
        entries.check_names("unsplit_features", unsplit, paths, labels)
        entries.check_names("batch_axis", axis_by_path, paths, labels)
        leaves, splitters, axes = [], [], []
        for path, leaf in zip(paths, tf.nest.flatten(batch)):
            is_unsplit = any(entries.is_at_or_below(path, name) for name in unsplit)
            leaves.append(leaf if is_unsplit else _as_leaf(leaf))
            splitters.append(None if is_unsplit else splitting.splitter(leaves[-1]))
            axis = entries.axis_at(path, axis_by_path) if splitters[-1] else 0
            # Every leaf that can be split has an axis 0.
            axes.append(axis and splitting.checked_axis(path, leaves[-1], axis))
        keys = _batch_keys(batch["features"], batch["labels"])
        if set(keys) == {None} and not same_rows:
            keys, splitters, axes = _by_sizes(paths, leaves, splitters, axes)
        batches: dict[Hashable, list[tuple[str, Any, int]]] = {}
        for key, path, leaf, axis, split in zip(keys, paths, leaves, axes, splitters):
            if split:
                path += _A_LIST if path in lists else ""
                path += f" (axis {axis})" if axis else ""
                batches.setdefault(key, []).append((path, leaf, axis))
        totals, checks = row_counts.count(batches)
        total, repeats = row_counts.smallest(totals, checks)
        rows = row_counts.rows_per_shard(total, num_towers, need_row, checks)
        with tf.control_dependencies(checks):
            starts = list(itertools.accumulate([0, *rows[:-1]]))
            held = row_counts.spans(starts, rows, total)
            spans = {key: held.times(repeat) for key, repeat in repeats.items()}
            parts = [
                split(leaf, spans[key], axis) if split else [leaf] * num_towers
                for key, leaf, axis, split in zip(keys, leaves, axes, splitters)
            ]
        checked = [
            splitting.in_order(leaf, part) if split and not axis else part
            for leaf, axis, part, split in zip(leaves, axes, parts, splitters)
        ]
        shards = [tf.nest.pack_sequence_as(batch, part) for part in zip(*parts)]
        shards_of_features, shards_of_labels = ([part[key] for part in shards] for key in batch)
    per_row = [repeats.get(key) if isinstance(repeats.get(key), int) else None for key in keys]
    found = [
        Split(path, leaf, axis, each, part)
        for path, leaf, axis, each, part, split in zip(
            paths, leaves, axes, per_row, checked, splitters
        )
        if split
    ]
    return Shards(
        shards_of_features,
        shards_of_labels,
        rows,
        total,
        axes if any(axes) else (),
        found,
        held.starts,
        held.counts,
    )


def _by_sizes(
    paths: Sequence[str], leaves: Sequence[Any], splitters: Sequence[Any], axes: Sequence[int]
) -> tuple[list[int], list[Any], list[int]]:
    """Returns how many entries each leaf has for a row, and its splitter and axis of rows."""
    each, found, places = [1] * len(leaves), list(splitters), list(axes)
    split = [place for place, splitter in enumerate(splitters) if splitter]
    given = [other_sizes.Leaf(paths[place], leaves[place], axes[place]) for place in split]
    for place, leaf, rows in zip(split, given, other_sizes.find(given)):
        if rows is None:
            found[place] = None
            tf.logging.info(
                "replicate: every tower gets all %d entries of %s, since the batch has another "
                "number of rows.",
                leaf.size,
                leaf.path,
            )
        else:
            each[place], places[place] = rows.times, rows.axis
    return each, found, places


def name_size(shards: Shards) -> None:
    """Names the tensor of the batch's number of rows, so that hooks find it by that name."""
    with tf.device("/device:CPU:0"):
        tf.identity(shards.total, name=f"{SHARD_SCOPE}batch_size")


def _as_leaf(leaf: Any) -> Any:
    """Returns arrays as tensors and all other objects unchanged."""
    if hasattr(leaf, "__array__") and not tf.is_tensor(leaf):
        return tf.convert_to_tensor(leaf)
    return leaf


def has_rows(leaf: Any) -> bool:
    """Whether `leaf` is a tensor with an axis 0, that is, part of a batch."""
    return splitting.splitter(leaf) is not None


def static_rows(features: Any, labels: Any) -> set[int | None]:
    """Returns the set of static numbers of rows of a batch's tensors, None for unknown ones.

    It adds no operation to the graph. The set is empty if all tensors are scalars.
    """
    with tf.Graph().as_default():
        batch = [
            entries.lists_as_tensors(structure, key, (), set())
            for key, structure in (("features", features), ("labels", labels))
        ]
    leaves = tf.nest.flatten(batch)
    shapes = [tf.TensorShape(leaf.shape) for leaf in leaves if hasattr(leaf, "shape")]
    return {None if s.rank is None else s.as_list()[0] for s in shapes if s.rank != 0}


def _batch_keys(features: Any, labels: Any) -> list[Any]:
    """Returns, for each leaf of features and labels, the key of its batch; None if there is one."""
    several = (
        isinstance(features, collections.abc.Mapping)
        and isinstance(labels, collections.abc.Mapping)
        and features.keys() == labels.keys()
    )

    def keys(structure: Any) -> Any:
        if not several:
            return tf.nest.map_structure(lambda leaf: None, structure)
        return {
            key: tf.nest.map_structure(lambda leaf, key=key: key, structure[key])
            for key in structure
        }

    return tf.nest.flatten({"features": keys(features), "labels": keys(labels)})
