"""Operations that write entries to indices, or reduce entries of equal indices.

Indices count entries of the whole result. A tower's rows may go anywhere in it, so each tower makes
a result of the full size from its rows, and these are reduced; unless each index is known to point
at its own row. Axes after the indexed ones stay as they are, and so do rows on them.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from replicate.compat import graph as graph_lib
from replicate.layouts import own_rows
from replicate.layouts.dims import ROWS, ROWS_OR_NONE, Monomial
from replicate.layouts.layout import (
    ALL,
    ANY,
    MAX,
    MEAN,
    MIN,
    PROD,
    SUM,
    WHOLE,
    Demand,
    Indices,
    Layout,
    Partial,
    Shard,
    Share,
    Strategy,
)
from replicate.layouts.rule import Op, pointing, rule
from replicate.layouts.rules.indexing import coordinates
from replicate.layouts.rules.labels import ShapeOf, cut
from replicate.layouts.rules.moves import moved
from replicate.layouts.rules.pointing import is_range, pointed_to


@rule("ScatterNd")
def scatter_nd(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on axes that are not indexed; else adds up over towers."""
    size = own_rows.size_in_shape(op, 2)
    own = own_rows.demand(op, layouts, 0, [1], size, is_matrix=True)
    if own is not None:
        return Strategy((own, Shard(0), Share(0)), (Shard(0),), (size,))
    found = coordinates(op.rank(0), op.out_rank(), op.rank(1))
    if found is None:
        return None
    outer, indexed, inner = found
    made = (*indexed, *inner)
    kept = cut(op, layouts, (outer, (*outer, *inner), ShapeOf(made)), [made])
    # The result is linear in the updates, since equal indices add up.
    if kept is None and layouts[1] in (SUM, MEAN):
        kept = Strategy((WHOLE, layouts[1], WHOLE), (layouts[1],))
    # If rows may go anywhere, the towers' results are added up, which needs numbers.
    is_shard = kept is not None and isinstance(kept.outputs[0], Shard)
    return kept if is_shard or _adds(op.outputs[0].dtype) else None


def _adds(dtype: object) -> bool:
    """Whether entries are numbers, so that equal indices are added up; not booleans or strings."""
    return any(getattr(dtype, kind) for kind in ("is_floating", "is_integer", "is_complex"))


# By type: the kinds of partials that stay partials of the same kind.
INTO_TENSORS: dict[str, tuple[Partial, ...]] = {
    "TensorScatterUpdate": (SUM, MEAN, MAX, MIN, PROD, ALL, ANY),
    **dict.fromkeys(["TensorScatterAdd", "TensorScatterSub"], (SUM, MEAN)),
    "ScatterNdNonAliasingAdd": (SUM, MEAN),
    "TensorScatterMax": (MAX,),
    "TensorScatterMin": (MIN,),
}


@rule(*INTO_TENSORS)
def into_tensor(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on axes that are not indexed, of the tensor and of the updates.

    Updates whose rows may go anywhere in a whole tensor are applied once.
    """
    size = own_rows.size_of_rows(op, 0)
    own = own_rows.demand(op, layouts, 1, [0, 2], size, is_matrix=True)
    if own is not None:
        return Strategy((Shard(0), own, Shard(0)), (Shard(0),))
    found = coordinates(op.rank(1), op.rank(0), op.rank(2))
    if found is not None:
        outer, indexed, inner = found
        made = (*indexed, *inner)
        kept = cut(op, layouts, (made, (), (*[None] * len(outer), *inner)), [made])
        if kept is not None:
            return kept
    parts = {layout for layout in layouts if layout != WHOLE}
    return moved(op, layouts, (0, 2)) if parts <= set(INTO_TENSORS[op.type]) else None


def _is_known(number: np.ndarray[Any, Any] | None) -> bool:
    """Whether a number follows from the number of rows, if it depends on the data at all."""
    if number is None:
        return False
    count = number.item()
    return not isinstance(count, Monomial) or {ROWS, ROWS_OR_NONE}.issuperset(count.symbols)


UNSORTED = {
    "UnsortedSegmentSum": SUM,
    "UnsortedSegmentProd": PROD,
    "UnsortedSegmentMax": MAX,
    "UnsortedSegmentMin": MIN,
}


@rule(*UNSORTED)
def unsorted_segments(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Reduces over towers; a tower without rows of a segment has the neutral value there.

    An optimizer adds up gradients of repeated rows of an embedding. Their ids are whole, and how
    many segments there are is only known when the graph runs: nearly as many as rows. So a sum in
    each tower would send no less than the rows, and the sum runs once.
    """
    data, ids, _ = layouts
    rank, kind = op.rank(1), UNSORTED[op.type]
    if rank is None:
        return None
    size = own_rows.size_in_shape(op, 2)
    own = own_rows.demand(op, layouts, 1, [0], size)
    if own is not None:
        return Strategy((Shard(0), own, Share(None)), (Shard(0),), (size,))
    # Rows on an axis that the ids do not have: each tower has its rows of all segments.
    if isinstance(data, Shard) and data.axis >= rank:
        return Strategy((data, WHOLE, WHOLE), (Shard(data.axis - rank + 1),))
    if ids == WHOLE and not _is_known(op.value(2)):
        return None
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


# An input gives the number of segments.
OF_GIVEN_SIZE = ("SparseSegmentSumWithNumSegments", "SparseSegmentSumGrad")


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
    if op.type in OF_GIVEN_SIZE and Shard(0) in rest[:2]:
        # Each tower makes all segments, and partial sums of a segment in two towers add up.
        return Strategy((WHOLE, Shard(0), Shard(0), WHOLE), (SUM,))
    rounds = op.type == "SegmentMean" and op.inputs[0].dtype.is_integer
    if op.type in LINEAR_SEGMENTS and data in (SUM, MEAN) and not rounds:
        return Strategy((data, *others), (data,))
    return None


@pointing("DynamicStitch", "ParallelDynamicStitch")
def stitch_rows(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Puts rows back into the order that they had before a `DynamicPartition`."""
    many = len(layouts) // 2
    made_by = op.inputs[0].op
    given, *_ = layouts
    if not isinstance(given, Indices) or made_by.type != "DynamicPartition":
        return None
    if [graph_lib.reference(t) for t in op.inputs[:many]] != [
        graph_lib.reference(t) for t in made_by.outputs
    ] or not is_range(made_by.inputs[0]):
        return None
    data: list[Demand] = []
    for layout in layouts[:many]:
        if not isinstance(layout, Indices) or layout.is_matrix:
            return None
        data.append(Shard(0, layout.unit))
    rows = Shard(0, given.within)
    return Strategy((*layouts[:many], *data), (rows,), (pointed_to(op, given),))


@rule("DynamicStitch", "ParallelDynamicStitch")
def stitch(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on axes of data after those of the indices, and partial sums and means."""
    many = len(layouts) // 2
    data, ranks = layouts[many:], [op.rank(index) for index in range(many)]
    for layout, rank in zip(data, ranks):
        if isinstance(layout, Shard) and rank is not None and layout.axis >= rank:
            return _stitch_behind(ranks, layout.axis - rank)
    kinds = set(data)
    # A whole value is the mean of equal partials.
    if kinds == {SUM} or kinds in ({MEAN}, {MEAN, WHOLE}):
        return Strategy((*[WHOLE] * many, *data), (SUM if SUM in kinds else MEAN,))
    return None


def _stitch_behind(ranks: Sequence[int | None], place: int) -> Strategy | None:
    """Returns the strategy for rows on axis `place` of those after the axes of the indices."""
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(ranks):
        return None
    data = [Shard(rank + place) for rank in known]
    return Strategy((*[WHOLE] * len(ranks), *data), (Shard(place + 1),))


@rule("SparseTensorDenseMatMul")
def sparse_matmul(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on the dense matrix's outer axis; adds up if non-zero entries have rows."""
    indices, values, _, dense = layouts
    # The axis of the dense matrix that is not summed over.
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
