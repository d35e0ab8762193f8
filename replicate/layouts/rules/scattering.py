"""Operations that put entries where indices say, or sum up those of equal indices.

Indices count through the whole's result. A tower's rows go anywhere in it, so each tower makes a
result of that size, of its rows alone, and these are reduced. Axes that come after those that are
indexed stay as they are, and so do rows on them.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import (
    MAX,
    MEAN,
    MIN,
    PROD,
    SUM,
    WHOLE,
    Demand,
    Layout,
    Shard,
    Strategy,
)
from replicate.layouts.rule import Op, rule


@rule("ScatterNd")
def scatter_nd(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Adds rows up over towers.

    Rows on an axis that is scattered whole are not kept: kernels refuse empty results.
    """
    indices, updates, _ = layouts
    rank = op.rank(0)
    if rank is None or not _adds(op.outputs[0].dtype):
        return None
    for layout in (indices, updates):
        if isinstance(layout, Shard):
            rows = layout.axis < rank - 1
            return Strategy((layout, layout, WHOLE), (SUM,)) if rows else None
    if updates in (SUM, MEAN):
        return Strategy((WHOLE, updates, WHOLE), (updates,))
    return None


def _adds(dtype: object) -> bool:
    """Whether entries of a type are numbers; booleans and strings are put together otherwise."""
    return any(getattr(dtype, kind) for kind in ("is_floating", "is_integer", "is_complex"))


UNSORTED = {
    "UnsortedSegmentSum": SUM,
    "UnsortedSegmentProd": PROD,
    "UnsortedSegmentMax": MAX,
    "UnsortedSegmentMin": MIN,
}


@rule(*UNSORTED)
def unsorted_segments(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Reduces rows over towers; a segment of which a tower has no rows is neutral there."""
    data, ids, _ = layouts
    rank, kind = op.rank(1), UNSORTED[op.type]
    if rank is None:
        return None
    if isinstance(data, Shard) and data.axis >= rank:
        return Strategy((data, WHOLE, WHOLE), (Shard(data.axis - rank + 1),))
    for layout in (data, ids):
        if isinstance(layout, Shard):
            return Strategy((layout, layout, WHOLE), (kind,))
    if data == kind or (data == MEAN and kind == SUM):
        return Strategy((data, WHOLE, WHOLE), (data,))
    return None


LINEAR_SEGMENTS = (
    "SegmentSum",
    "SegmentMean",
    "SparseSegmentSum",
    "SparseSegmentSumGrad",
    "SparseSegmentSumWithNumSegments",
    "SparseSegmentMean",
    "SparseSegmentSqrtN",
    "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSqrtNWithNumSegments",
    "SparseSegmentMeanGrad",
    "SparseSegmentSqrtNGrad",
)


@rule(*LINEAR_SEGMENTS, "SegmentProd", "SegmentMax", "SegmentMin")
def sorted_segments(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows that are not on the axis of segments.

    If the ids have rows, most run once: there are as many segments as the last id says, and a
    segment may begin in one tower and end in the next.
    """
    data, *rest = layouts
    others = (WHOLE,) * len(rest)
    if isinstance(data, Shard) and data.axis > 0:
        return Strategy((data, *others), (data,))
    if op.type == "SparseSegmentSumWithNumSegments" and Shard(0) in rest[:2]:
        # Any tower makes as many segments, and sums add up wherever a segment begins.
        return Strategy((WHOLE, Shard(0), Shard(0), WHOLE), (SUM,))
    rounds = op.type == "SegmentMean" and op.inputs[0].dtype.is_integer
    if op.type in LINEAR_SEGMENTS and data in (SUM, MEAN) and not rounds:
        return Strategy((data, *others), (data,))
    return None


@rule("DynamicStitch", "ParallelDynamicStitch")
def stitch(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on axes of data that come after those of the indices, and parts of sums."""
    many = len(layouts) // 2
    data, ranks = layouts[many:], [op.rank(index) for index in range(many)]
    for layout, rank in zip(data, ranks):
        if isinstance(layout, Shard) and rank is not None and layout.axis >= rank:
            return _stitch_behind(ranks, layout.axis - rank)
    kinds = set(data)
    if kinds == {SUM} or kinds in ({MEAN}, {MEAN, WHOLE}):  # A mean of what is the same is that.
        return Strategy((*[WHOLE] * many, *data), (SUM if SUM in kinds else MEAN,))
    return None


def _stitch_behind(ranks: Sequence[int | None], place: int) -> Strategy | None:
    """Returns the strategy for rows on axis `place` of those after the indices' own."""
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(ranks):
        return None
    data = [Shard(rank + place) for rank in known]
    return Strategy((*[WHOLE] * len(ranks), *data), (Shard(place + 1),))


@rule("SparseTensorDenseMatMul")
def sparse_matmul(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on the dense matrix's own axis; adds up over non-zero entries that have rows."""
    indices, values, _, dense = layouts
    outer = Shard(0 if op.attr("adjoint_b") else 1)
    if dense == outer:
        return Strategy((WHOLE, WHOLE, WHOLE, outer), (Shard(1),))
    if Shard(0) in (indices, values):
        return Strategy((Shard(0), Shard(0), WHOLE, WHOLE), (SUM,))
    for index in (1, 3):
        if layouts[index] in (SUM, MEAN):
            demands: list[Demand] = [WHOLE] * 4
            demands[index] = layouts[index]
            return Strategy(tuple(demands), (layouts[index],))
    return None


@rule("HistogramFixedWidth")
def histogram(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Adds up the towers' counts."""
    if not isinstance(layouts[0], Shard):
        return None
    return Strategy((layouts[0], WHOLE, WHOLE), (SUM,))
