"""Helpers of rules for operations that only move entries: rearrange, join, split or repeat them."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import Dim, Monomial
from replicate.layouts.layout import WHOLE, Layout, Partial, Strategy
from replicate.layouts.rule import Op
from replicate.layouts.rules.partials import IDEMPOTENT


def moved(op: Op, layouts: Sequence[Layout], data: Sequence[int] = (0,)) -> Strategy | None:
    """Returns the strategy for partials of one kind: entries are moved alike in each tower.

    Whole inputs can be treated as partials if reducing equal partials gives the same value.

    Args:
        op: The operation.
        layouts: Those of its inputs.
        data: The indices of inputs whose entries are moved; the others are parameters, and whole.
    """
    kinds = {layouts[index] for index in data}
    found = [kind for kind in kinds if isinstance(kind, Partial)]
    if len(found) != 1 or not kinds <= {found[0], WHOLE}:
        return None
    if WHOLE in kinds and found[0] not in IDEMPOTENT:
        return None
    wanted = [layouts[index] if index in data else WHOLE for index in range(len(layouts))]
    return Strategy(tuple(wanted), (found[0],) * len(op.outputs))


def entry_of_rows(op: Op, index: int) -> int | None:
    """Returns the place of the number of rows, or a multiple, in a shape (input `index`), or None.

    It must be the only entry that depends on n; or, if the graph knows n, the only one that equals
    n, since multiples of a known n are mostly a coincidence.
    """
    value = op.value(index)
    if value is None or value.ndim != 1:
        return None
    if isinstance(op.rows, int):
        places = [place for place, size in enumerate(value) if size == op.rows]
    else:
        places = [place for place, size in enumerate(value) if _follows(size, op)]
    if len(places) != 1:
        return None
    each = dims_lib.over(value[places[0]], op.rows)
    return None if each is None or _follows(each, op) else places[0]


def _follows(size: Dim, op: Op) -> bool:
    """Whether a size depends on n."""
    names = op.rows.symbols if isinstance(op.rows, Monomial) else ()
    return any(dims_lib.holds(size, name) for name in names)
