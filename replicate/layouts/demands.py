"""Decides whether an input of an operation can be brought into the layout that is demanded."""

from __future__ import annotations

from replicate.layouts import dims as dims_lib
from replicate.layouts.layout import (
    Demand,
    Grown,
    Indices,
    Layout,
    Own,
    Partial,
    PerTowerLayout,
    Shard,
    Share,
    Whole,
    adds_offset,
    count,
)
from replicate.layouts.rule import Op


def can_be(op: Op, index: int, layout: Layout, demand: Demand) -> bool:
    """Whether an input can be brought into the layout that an operation demands."""
    if isinstance(demand, Share):
        return isinstance(layout, Whole) and _has_share(op, index, demand)
    if isinstance(demand, Own):
        return can_be(op, index, layout, Shard(0, demand.unit))
    if isinstance(demand, Shard):
        if layout == demand or adds_offset(layout, demand):
            return True
        dims = op.dims(index)
        if isinstance(layout, PerTowerLayout) or dims is None or demand.axis >= len(dims):
            return False
        # Rows have no common number of entries of a ragged unit, nor the reverse.
        given = layout.unit if isinstance(layout, (Indices, Shard)) else demand.unit
        if isinstance(given, str) and isinstance(demand.unit, str) and given != demand.unit:
            return False
        size = dims[demand.axis]
        return (
            not isinstance(size, int)
            or dims_lib.over(size, count(demand.unit, op.rows)) is not None
        )
    if isinstance(demand, (Partial, PerTowerLayout, Indices, Grown)):
        return layout == demand  # Nothing else can be converted into these.
    # A whole value is demanded, which all but these can become.
    return not isinstance(layout, PerTowerLayout)


def _has_share(op: Op, index: int, demand: Share) -> bool:
    """Whether the integers are known, and the one at `axis` is a multiple of the number of rows.

    The integers at other axes are those of the whole batch, even if they are multiples as well:
    all pairs of rows have n on an axis within each row, too.
    """
    value, axis, many = op.value(index), demand.axis, count(demand.unit, op.rows)
    if value is None or value.ndim > 1:
        return False
    if axis is not None and not -value.size <= axis < value.size:
        return False
    shared = list(value.flat) if axis is None else [value.flat[axis]]
    # Each tower resolves -1 to the size of its own rows.
    are_multiples = all(entry == -1 or dims_lib.over(entry, many) is not None for entry in shared)
    return are_multiples and not any(dims_lib.is_of_loop(entry) for entry in value.flat)
