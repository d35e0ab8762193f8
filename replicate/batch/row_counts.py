"""Rows of a batch and of its shards, counted and checked."""

from __future__ import annotations

from typing import Any, Hashable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from replicate.batch import splitting
from replicate.batch.splitting import Spans

_SAME_ROWS = "All tensors of a batch must have the same number of rows (axis 0),"
_MULTIPLES = (
    "Features and labels with the same keys hold one batch per key, each with a whole number of "
    "rows for every row of the smallest,"
)
_NOT_IN_BATCH = (
    "Pass a tensor that is not part of the batch as a scalar or through `params`, or name it in "
    "`unsplit_features`. Name tensors that have their rows on another axis in `batch_axis`."
)
_NO_ROWS = (
    "A training batch must have a row, but this one has none. Let `input_fn` skip it, e.g. by "
    "`dataset.filter`, or end there."
)


def count(
    batches: Mapping[Hashable, Sequence[tuple[str, Any, int]]],
) -> tuple[dict[Hashable, Any], list[tf.Operation]]:
    """Returns the number of rows of each batch, and a list of operations that check them.

    The number is an integer if the static shape of a leaf gives it, else an int32 scalar tensor.

    Args:
        batches: Dict of lists of `(path, leaf, axis)`, the leaves of each batch that have rows.

    Raises:
        ValueError: If there are no leaves, or their static shapes give different numbers.
    """
    if not batches:
        raise ValueError(
            "The batch is split by the rows of its tensors, but neither `features` nor `labels` "
            "holds a tensor of rank 1 or more. Let `input_fn` return the batch, or replicate over "
            "one device."
        )
    totals: dict[Hashable, Any] = {}
    checks: list[tf.Operation] = []
    for key, leaves in batches.items():
        sizes = {path: splitting.known_rows(leaf, axis) for path, leaf, axis in leaves}
        known = {path: rows for path, rows in sizes.items() if rows is not None}
        if len(set(known.values())) > 1:
            raise ValueError(
                f"{_SAME_ROWS} but {', '.join(f'{path} has {n}' for path, n in known.items())}. "
                f"{_NOT_IN_BATCH}"
            )
        unknown = [
            (path, splitting.count_rows(path, leaf, axis))
            for path, leaf, axis in leaves
            if path not in known
        ]
        totals[key] = next(iter(known.values())) if known else unknown[0][1]
        # Known numbers were compared above, and a single one has nothing to differ from.
        if len(leaves) > 1 and unknown:
            paths, counts = zip(*unknown)
            data = [f"{_SAME_ROWS} but the rows of", ", ".join(paths), "are", tf.stack(counts)]
            those = f", those of {', '.join(known)}" if known else ""
            data += ["in a batch of", totals[key], f"rows{those}. {_NOT_IN_BATCH}"]
            equal = tf.reduce_all(tf.equal(counts, totals[key]))
            checks.append(tf.Assert(equal, data, len(counts)))
    return totals, checks


def smallest(
    totals: Mapping[Hashable, Any], checks: list[tf.Operation]
) -> tuple[Any, dict[Hashable, Any]]:
    """Returns the rows of the smallest batch, and how many rows each batch has for one of these.

    Args:
        totals: Dict of the rows of each batch, integers or int32 scalar tensors.
        checks: List to which operations that check the rows are added.

    Raises:
        ValueError: If the static rows of a batch are no multiple of those of the smallest.
    """
    if len(totals) == 1:
        return next(iter(totals.values())), dict.fromkeys(totals, 1)
    way_out = "Enlarge a batch, or let `input_fn` return features and labels of one batch."
    if all(isinstance(total, int) for total in totals.values()):
        total = min(totals.values())
        # Of no rows, only an empty batch has a multiple.
        if any(rows % total if total else rows for rows in totals.values()):
            batches = ", ".join(f"{key!r} has {rows}" for key, rows in totals.items())
            raise ValueError(f"{_MULTIPLES} but {batches}. {way_out}")
        return total, {key: rows // max(total, 1) for key, rows in totals.items()}
    counts = tf.stack(list(totals.values()))
    total = tf.reduce_min(counts)
    least = tf.maximum(total, 1)
    whole = tf.reduce_all(tf.equal(tf.where_v2(total > 0, counts % least, counts), 0))
    data = [f"{_MULTIPLES} but the rows of", ", ".join(map(repr, totals)), "are", counts, way_out]
    checks.append(tf.Assert(whole, data, len(totals)))
    return total, {key: rows // least for key, rows in totals.items()}


def rows_per_shard(
    total: Any, num_towers: int, need_row: bool, checks: list[tf.Operation]
) -> list[Any]:
    """Returns the number of rows of each shard of a batch, integers if `total` is one.

    Args:
        total: Rows of the batch, an integer or an int32 scalar tensor.
        num_towers: The number of shards.
        need_row: Whether the batch must have a row; see `sharding.shard`.
        checks: List to which an operation that checks the rows is added.

    Raises:
        ValueError: If the batch needs a row, and `total` is 0.
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


def spans(starts: list[Any], rows: list[Any], total: Any) -> Spans:
    """Returns the `Spans` of the shards in the batch.

    A shard without rows holds a copy of the batch's last row, since many models cannot process an
    empty batch. No result counts the copy.

    Args:
        starts: The first row of each shard, integers or int32 scalar tensors.
        rows: The number of rows of each shard, likewise.
        total: The number of rows of the batch, likewise.
    """
    if all(isinstance(count, int) and count for count in rows):
        return Spans(starts, rows, overlap=False)
    low: Any = min if isinstance(total, int) else tf.minimum
    high: Any = max if isinstance(total, int) else tf.maximum
    least = low(total, 1)  # The batch itself may be empty.
    # A shard without rows would start behind the last row; it gets a copy of that row instead.
    starts = [low(start, total - least) for start in starts]
    return Spans(starts, [high(count, least) for count in rows], overlap=True)
