"""Tells whether towers can have an input of an operation as it is demanded."""

from __future__ import annotations

from replicate.layouts import dims as dims_lib
from replicate.layouts.layout import WHOLE, Demand, Layout, Own, Partial, Shard, Share
from replicate.layouts.rule import Op


def can_be(op: Op, index: int, layout: Layout, demand: Demand) -> bool:
    """Whether towers can have an input as an operation demands it."""
    if isinstance(demand, Share):
        return layout == WHOLE and _has_share(op, index, demand.axis)
    if isinstance(demand, Shard):
        if layout == demand:
            return True
        dims = op.dims(index)
        if isinstance(layout, Own) or dims is None or demand.axis >= len(dims):
            return False
        size = dims[demand.axis]
        return not isinstance(size, int) or dims_lib.over(size, op.rows) is not None
    if isinstance(demand, (Partial, Own)):
        return layout == demand
    return not isinstance(layout, Own)


def _has_share(op: Op, index: int, axis: int) -> bool:
    """Whether of known integers the one at `axis`, and no other, is the towers' to share."""
    value = op.value(index)
    if value is None or value.ndim != 1 or not -len(value) <= axis < len(value):
        return False
    for place, entry in enumerate(value):
        if place == axis % len(value):
            if dims_lib.over(entry, op.rows) is None and entry != -1:
                return False
        elif not isinstance(op.rows, int) and dims_lib.holds_rows(entry):
            return False
    return not any(dims_lib.is_of_loop(entry) for entry in value)
