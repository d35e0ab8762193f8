"""Replaces values of towers without rows of the batch by values that make no difference.

Such a tower computes the last row once more, so that kernels and losses get a row.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat.node_builder import NodeBuilder
from replicate.layouts import WHOLE, Grown, Partial
from replicate.partition.rows import Rows
from replicate.reduction import collectives

# Operations that return the value which a reduction ignores.
_NEUTRAL = {"sum": "ZerosLike", "mean": "ZerosLike", "prod": "OnesLike"}


def has_rows(rows: Rows, devices: Sequence[str]) -> list[Any]:
    """Returns for each tower whether it has rows: a bool, or a scalar tensor on its device.

    Tower 0 has rows if any tower has, and always counts.
    """
    found: list[Any] = [True]
    for count, device in zip(rows.counts[1:], devices[1:]):
        with tf.name_scope(collectives.SCOPE), tf.device(device):
            has = count > 0
        found.append(has if isinstance(has, tf.Tensor) else bool(has))
    return found


def if_counted(
    layout: Any,
    by_tower: Sequence[Any],
    dtype: Any,
    has_rows: Sequence[Any],
    devices: Sequence[str],
    nodes: NodeBuilder,
) -> list[Any]:
    """Returns the towers' values, replaced in towers without rows.

    Values pass through a `Switch` and a `Merge`, which neither copy nor read them. Those that are
    the same in all towers stay, as do those of reductions that need `or_first`.

    Args:
        layout: The layout of the values.
        by_tower: N tensors, or names in `nodes`.
        dtype: Their type.
        has_rows: The result of the function `has_rows`.
        devices: Device strings of the towers.
        nodes: The `NodeBuilder` that makes operations.

    Returns:
        N tensors of `by_tower` or names in `nodes`.
    """
    is_without = layout == WHOLE or (isinstance(layout, Partial) and layout.op not in _NEUTRAL)
    if is_without:
        return list(by_tower)
    made = []
    for value, has, device in zip(by_tower, has_rows, devices):
        if has is True:
            made.append(value)
        elif has is False:  # Nothing depends on that tower, so it does not run at all.
            made.append(_neutral(layout, nodes.name_of(by_tower[0]), dtype, device, nodes))
        else:
            given = [nodes.name_of(value), nodes.name_of(has)]
            switch = nodes.add("Switch", given, dtype, device)
            without = _neutral(layout, switch, dtype, device, nodes)
            made.append(nodes.add("Merge", [without, f"{switch}:1"], dtype, device, N=2))
    return made


def _neutral(layout: Any, name: str, dtype: Any, device: str, nodes: NodeBuilder) -> str:
    """Returns the name of a value that makes no difference in a meeting.

    It is computed from the value `name`, so that it is dead if that is: a constant never is, and
    the `Merge` would get both of its inputs.
    """
    if isinstance(layout, Partial):
        return nodes.add(_NEUTRAL[layout.op], [name], dtype, device)
    # No entries of a shard; of a tensor that has grown, those that are the same in all towers.
    axis, end = (0, layout.begin) if isinstance(layout, Grown) else (layout.axis, 0)
    bounds = [[0] * (axis + 1), [0] * axis + [end], [1] * (axis + 1)]
    inputs = [name, *(nodes.constant(bound, device) for bound in bounds)]
    all_before = 2**axis - 1  # Axes before this one are taken whole.
    masks = {"begin_mask": all_before, "end_mask": all_before}
    return nodes.add("StridedSlice", inputs, dtype, device, Index=tf.int32, **masks)


def or_first(by_tower: Sequence[Any], has_rows: Sequence[Any]) -> list[Any]:
    """Returns N tensors, with tower 0's in place of those of towers without rows."""
    made = []
    for value, has in zip(by_tower, has_rows):
        if isinstance(has, bool):
            made.append(value if has else by_tower[0])
        else:
            made.append(tf.where_v2(has, value, by_tower[0]))
    return made
