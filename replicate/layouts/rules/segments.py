"""Sums, and other reductions, of a row's values: a ragged unit.

The segment ids are indices of rows, so each tower reduces the values of its rows. If the last id
determines the number of rows, the ids have to be known to include all of them.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import SUM, WHOLE, Demand, Indices, Layout, Shard, Share, Strategy
from replicate.layouts.rule import Op, pointing
from replicate.layouts.rules.pointing import pointed_to


def _ids(op: Op, layout: Layout, number: int | None) -> Indices | None:
    """Returns ids whose segments are known to be all rows, else None.

    Input `number` gives the number of segments; None if the last id does.
    """
    if not isinstance(layout, Indices) or layout.is_matrix:
        return None
    if number is None:
        return layout if layout.is_full else None
    many = op.value(number)
    return layout if many is not None and many.item() == pointed_to(op, layout) else None


@pointing("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def unsorted(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Reduces the values of a tower's rows; a row without values is neutral, as on one device."""
    ids = _ids(op, layouts[1], 2)
    if ids is None or op.rank(1) != 1:
        return None
    demands = (Shard(0, ids.unit), ids, Share(0, ids.within))
    return Strategy(demands, (Shard(0, ids.within),), (pointed_to(op, ids),))


@pointing("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def by_sorted_ids(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Reduces the values of a tower's rows."""
    ids = _ids(op, layouts[1], None)
    if ids is None:
        return None
    return Strategy((Shard(0, ids.unit), ids), (Shard(0, ids.within),), (pointed_to(op, ids),))


_OF_TAKEN = ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")


@pointing(*_OF_TAKEN, *(f"{name}WithNumSegments" for name in _OF_TAKEN))
def of_taken(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Reduces entries that are taken by other indices, from whole data or the tower's own."""
    with_number = len(layouts) == 4
    ids = _ids(op, layouts[2], 3 if with_number else None)
    if ids is None:
        return None
    data, taken = _taken(op, layouts, ids)
    last: tuple[Demand, ...] = (Share(0, ids.within),) if with_number else ()
    size = pointed_to(op, ids)
    return Strategy((data, taken, ids, *last), (Shard(0, ids.within),), (size,))


def _taken(op: Op, layouts: Sequence[Layout], ids: Indices) -> tuple[Demand, Demand]:
    """Returns the demands of the data, and of the indices into them."""
    data, taken, dims = layouts[0], layouts[1], op.dims(0)
    if not isinstance(taken, Indices) or taken.is_matrix or taken.unit != ids.unit:
        return WHOLE, Shard(0, ids.unit)
    towers_have_data = data == Shard(0, taken.within) and dims and dims[0] == pointed_to(op, taken)
    return (data, taken) if towers_have_data else (WHOLE, Shard(0, ids.unit))


@pointing(*(f"{name}Grad" for name in _OF_TAKEN))
def gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Adds up gradients of whole data over towers; each segment is in one tower.

    Without entries, the kernel returns uninitialised memory, so every row has to have one.
    """
    ids, dims = _ids(op, layouts[2], None), op.dims(0)
    if ids is None or not dims or dims[0] != pointed_to(op, ids):
        return None
    return Strategy((Shard(0, ids.within), Shard(0, ids.unit), ids, WHOLE), (SUM,))
