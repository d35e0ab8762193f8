"""Splits a batch into shards, one per tower.

The first `n mod N` of N shards of a batch of n rows get one row more than the others, as
`tf.sparse.split` has it, so that dense, sparse and ragged leaves stay aligned. Rows are on axis 0,
or where `batch_axis` says, as in time-major tensors of shape [time, n, ...].

A step may take several batches, such as one for training and one for validation: where features
and labels are dicts with the same keys, each key holds a batch of its own. Its rows are a multiple
of those of the smallest, which counts as *the* batch, and it is split in the same proportion.

A Python list of numbers or strings is data, as for `tf.convert_to_tensor`, and split by rows; a
list of tensors is a structure. In tuples and dicts, numbers and strings are no data.
"""

import collections.abc
import itertools
from typing import Any, List, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.batch import entries, splitting
from replicate.batch.splitting import Spans
from replicate.compat import graph as graph_lib

SHARD_SCOPE = "replicate/shard/"  # Name scope of the operations that make shards.
PREFETCH_SCOPE = "replicate/prefetch/"  # Of those that stage the shards of the next step.

_SAME_ROWS = "All tensors of a batch must have the same number of rows (axis 0),"
_MULTIPLES = (
    "Features and labels with the same keys hold one batch per key, each with a whole number of "
    "rows for every row of the smallest,"
)
_NOT_IN_BATCH = (
    "Pass what is no part of the batch as a scalar or through `params`, or name it in "
    "`unsplit_features`. Name what has its rows on another axis in `batch_axis`."
)
_NO_ROWS = (
    "A training batch must have a row, but this one has none. Let `input_fn` leave it out, as by "
    "`dataset.filter`, or end there."
)
_A_LIST = " (a Python list)"  # After the path of what was one, in messages.


class Shards(NamedTuple):
    """The shards of one batch.

    Attributes:
        features: N structures like the batch's features, one per tower.
        labels: N structures like the batch's labels.
        rows: Rows of the batch in each shard, which may be 0: N integers, or N int32 scalar tensors
            if only known at run time.
        total: Rows of the batch, an integer or an int32 scalar tensor.
        axes: The axis of rows of each leaf of features and labels; () if it is 0 in all of them.
        split: For each leaf of features and labels that was split: the leaf, its axis of rows, how
            many entries each row has there (None if that is only known at run time), and its N
            shards.
        starts: The first row of the batch that each shard holds.
        held: How many rows each shard holds: a shard without rows holds a copy of the last.
    """

    features: List[Any]
    labels: List[Any]
    rows: List[Any]
    total: Any
    axes: Sequence[int] = ()
    split: Sequence[Any] = ()
    starts: Sequence[Any] = ()
    held: Sequence[Any] = ()


def shard(features, labels, num_towers, need_row, *, unsplit_features=(), batch_axis=0):
    """Splits features and labels by rows, that is, along axis 0 or what `batch_axis` says.

    Args:
        features: Nested structure (dict, list, tuple, namedtuple) of tensors, `tf.SparseTensor`s
            and `tf.RaggedTensor`s of shape [n, ...], the same n in all of a batch, and of Python
            lists of n numbers or strings, or of lists of these, which become tensors. Scalars, None
            and whatever else is no tensor go to every tower whole.
        labels: Like `features`; None if there are none. If both are dicts with the same keys, each
            key holds a batch of its own, of n times a whole number of rows.
        num_towers: N. Where the batch has fewer rows, the shards beyond it hold a copy of its last
            row, and weigh nothing.
        need_row: Whether the batch must have a row, as in training.
        unsplit_features: Iterable of names of entries that every tower gets complete, of any shape;
            see `entries.unsplit_paths`. Those of labels match nothing, and may, where `labels`
            is None.
        batch_axis: The axis of rows, or a dictionary of axes by names; see
            `entries.axes_by_path`. Its names are like those of `unsplit_features`. Ragged
            tensors have their rows on axis 0 alone.

    Returns:
        A `Shards`.

    Raises:
        TypeError: As `entries.unsplit_paths` and `axes_by_path` do.
        ValueError: If no leaf has rows, if the leaves differ in rows, or if the one row is missing
            that is needed. What is only known at run time raises `tf.errors.InvalidArgumentError`
            in the first step that breaks the rule, before the towers compute. If a Python list with
            numbers or strings is no tensor's value, if a name in `unsplit_features` or `batch_axis`
            matches nothing, or if a tensor cannot have its rows on the axis that is named for it.
    """
    whole = entries.unsplit_paths(unsplit_features)
    axis_by_path = entries.axes_by_path(batch_axis)
    with tf.device("/device:CPU:0"), tf.name_scope(SHARD_SCOPE):
        batch, lists = {}, set()
        for key, structure in (("features", features), ("labels", labels)):
            batch[key] = entries.lists_as_tensors(structure, key, whole, lists)
        paths = [path for path, _ in graph_lib.flatten_with_paths(batch)]
        entries.check_names("unsplit_features", whole, paths, labels)
        entries.check_names("batch_axis", axis_by_path, paths, labels)
        leaves, splitters, axes = [], [], []
        for path, leaf in zip(paths, tf.nest.flatten(batch)):
            is_whole = any(entries.is_at_or_below(path, name) for name in whole)
            leaves.append(leaf if is_whole else _as_leaf(leaf))
            splitters.append(None if is_whole else splitting.splitter(leaves[-1]))
            axis = entries.axis_at(path, axis_by_path) if splitters[-1] else 0
            axes.append(axis and splitting.checked_axis(path, leaves[-1], axis))
        keys = _batch_keys(batch["features"], batch["labels"])
        batches = {}
        for key, path, leaf, axis, split in zip(keys, paths, leaves, axes, splitters):
            if split:
                path += _A_LIST if path in lists else ""
                path += f" (axis {axis})" if axis else ""
                batches.setdefault(key, []).append((path, leaf, axis))
        totals, checks = _count_rows(batches)
        total, repeats = _smallest(totals, checks)
        rows = _shard_rows(total, num_towers, need_row, checks)
        with tf.control_dependencies(checks):
            starts = list(itertools.accumulate([0, *rows[:-1]]))
            held = _spans(starts, rows, total)
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
        of_features, of_labels = ([part[key] for part in shards] for key in batch)
    per_row = [repeats.get(key) if isinstance(repeats.get(key), int) else None for key in keys]
    found = [
        (leaf, axis, each, part)
        for leaf, axis, each, part, split in zip(leaves, axes, per_row, checked, splitters)
        if split
    ]
    axes = axes if any(axes) else ()
    return Shards(of_features, of_labels, rows, total, axes, found, held.starts, held.counts)


def name_size(shards):
    """Gives the rows of the batch that a step trains the name by which hooks find it."""
    with tf.device("/device:CPU:0"):
        tf.identity(shards.total, name=f"{SHARD_SCOPE}batch_size")


def _as_leaf(leaf):
    """Returns arrays as tensors and everything else as it is."""
    if hasattr(leaf, "__array__") and not tf.is_tensor(leaf):
        return tf.convert_to_tensor(leaf)
    return leaf


def has_rows(leaf):
    """Whether `leaf` is a tensor with an axis 0, and so part of a batch."""
    return splitting.splitter(leaf) is not None


def static_rows(features, labels):
    """Returns the set of numbers of rows that the tensors of a batch have, None for unknown ones.

    Makes no operation in the graph. The set is empty if there are scalars alone.
    """
    with tf.Graph().as_default():
        batch = [
            entries.lists_as_tensors(structure, key, (), set())
            for key, structure in (("features", features), ("labels", labels))
        ]
    leaves = tf.nest.flatten(batch)
    shapes = [tf.TensorShape(leaf.shape) for leaf in leaves if hasattr(leaf, "shape")]
    return {None if s.rank is None else s.as_list()[0] for s in shapes if s.rank != 0}


def _batch_keys(features, labels):
    """Returns, for each leaf of features and labels, the key of the batch it is part of."""
    several = (
        isinstance(features, collections.abc.Mapping)
        and isinstance(labels, collections.abc.Mapping)
        and features.keys() == labels.keys()
    )

    def keys(structure):
        if not several:
            return tf.nest.map_structure(lambda leaf: None, structure)
        return {
            key: tf.nest.map_structure(lambda leaf, key=key: key, structure[key])
            for key in structure
        }

    return tf.nest.flatten({"features": keys(features), "labels": keys(labels)})


def _count_rows(batches):
    """Returns the rows of each batch and a list of operations that check them.

    The rows are an integer if the shape of some leaf tells them, else an int32 scalar tensor.

    Args:
        batches: Dict of lists of `(path, leaf, axis)`, the leaves of each batch that have rows.
    """
    if not batches:
        raise ValueError(
            "The batch is split by the rows of its tensors, but neither `features` nor `labels` "
            "holds a tensor of rank 1 or more. Let `input_fn` return the batch, or replicate over "
            "one device."
        )
    totals, checks = {}, []
    for key, leaves in batches.items():
        sizes = {path: splitting.known_rows(leaf, axis) for path, leaf, axis in leaves}
        known = {path: rows for path, rows in sizes.items() if rows is not None}
        if len(set(known.values())) > 1:
            raise ValueError(
                f"{_SAME_ROWS} but {', '.join(f'{path} has {n}' for path, n in known.items())}. "
                f"{_NOT_IN_BATCH}"
            )
        unknown = [
            (path, splitting.count_rows(leaf, axis))
            for path, leaf, axis in leaves
            if path not in known
        ]
        totals[key] = next(iter(known.values())) if known else unknown[0][1]
        if len(leaves) > 1 and unknown:
            paths, counts = zip(*unknown)
            data = [f"{_SAME_ROWS} but the rows of", ", ".join(paths), "are", tf.stack(counts)]
            those = f", those of {', '.join(known)}" if known else ""
            data += ["in a batch of", totals[key], f"rows{those}. {_NOT_IN_BATCH}"]
            equal = tf.reduce_all(tf.equal(counts, totals[key]))
            checks.append(tf.Assert(equal, data, len(counts)))
    return totals, checks


def _smallest(totals, checks):
    """Returns the rows of the smallest batch, and of each batch for each of these.

    Args:
        totals: Dict of the rows of each batch, integers or int32 scalar tensors.
        checks: List to which operations that check the rows are added.
    """
    if len(totals) == 1:
        return next(iter(totals.values())), dict.fromkeys(totals, 1)
    way_out = "Enlarge a batch, or let `input_fn` return features and labels of one batch."
    if all(isinstance(total, int) for total in totals.values()):
        total = min(totals.values())
        if any(rows % max(total, 1) for rows in totals.values()):
            batches = ", ".join(f"{key!r} has {rows}" for key, rows in totals.items())
            raise ValueError(f"{_MULTIPLES} but {batches}. {way_out}")
        return total, {key: rows // max(total, 1) for key, rows in totals.items()}
    counts = tf.stack(list(totals.values()))
    total = tf.reduce_min(counts)
    least = tf.maximum(total, 1)
    whole = tf.reduce_all(tf.equal(counts % least, 0))
    data = [f"{_MULTIPLES} but the rows of", ", ".join(map(repr, totals)), "are", counts, way_out]
    checks.append(tf.Assert(whole, data, len(totals)))
    return total, {key: rows // least for key, rows in totals.items()}


def _shard_rows(total, num_towers, need_row, checks):
    """Returns the rows of each shard of a batch of `total` rows, integers if `total` is one.

    Args:
        total: n, an integer or an int32 scalar tensor.
        num_towers: N.
        need_row: See `shard`.
        checks: List to which an operation that checks the rows is added.
    """
    known = isinstance(total, int)
    if need_row and not known:
        checks.append(tf.Assert(total >= 1, [_NO_ROWS]))
    elif need_row and not total:
        raise ValueError(_NO_ROWS)
    least, more = total // num_towers, total % num_towers
    if known:
        return [least + (i < more) for i in range(num_towers)]
    rows = least + tf.cast(tf.range(num_towers) < more, tf.int32)
    return tf.unstack(rows, num=num_towers)


def _spans(starts, rows, total):
    """Returns where in the batch the shards of `rows` rows are.

    A shard without rows is given a copy of the batch's last row, since many a model cannot take
    an empty batch; nothing that is computed from it counts.
    """
    if all(isinstance(count, int) and count for count in rows):
        return Spans(starts, rows, overlap=False)
    low, high = (min, max) if isinstance(total, int) else (tf.minimum, tf.maximum)
    least = low(total, 1)  # The batch itself may be empty.
    starts = [low(start, total - least) for start in starts]
    return Spans(starts, [high(count, least) for count in rows], overlap=True)
