"""Operations that take entries by their indices, and the reverse of `ArgMax`: `OneHot`.

Indices count entries of the whole tensor. So the indexed axis must be whole, unless each index is
known to point at its own row; rows may be on another axis. The indices may have rows themselves,
and then so has the result.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts import own_rows
from replicate.layouts.layout import WHOLE, Layout, Shard, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import Labels, cut
from replicate.layouts.rules.moves import moved


@rule("Gather", "GatherV2")
def gather(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of batch axes, of indices, and of axes that are not gathered from.

    If each index points at its own row, rows of parameters and of indices stay.
    """
    params, indices, *rest = layouts
    axes = _axes(op)
    if axes is None:
        return None
    axis, batch = axes
    size = own_rows.size_of_rows(op, 0) if axis == batch == 0 else None
    own = own_rows.demand(op, layouts, 1, [0], size)
    if own is not None:
        return Strategy((Shard(0), own, *[WHOLE] * len(rest)), (Shard(0),))
    others, of_indices = (WHOLE,) * len(rest), op.rank(1)
    # On a batch axis, each row has parameters and indices of its own.
    for layout in (params, indices):
        if isinstance(layout, Shard) and layout.axis < batch:
            return Strategy((layout, layout, *others), (layout,))
    # Rows of the parameters stay if another axis is indexed; all towers use the same indices.
    if isinstance(params, Shard) and params.axis != axis and of_indices is not None:
        # The axes of the indices except batch axes take the place of the gathered axis.
        shift = of_indices - batch - 1 if params.axis > axis else 0
        return Strategy((params, WHOLE, *others), (Shard(params.axis + shift),))
    if isinstance(indices, Shard):
        return Strategy((WHOLE, indices, *others), (Shard(axis + indices.axis - batch),))
    return moved(op, layouts)


def _axes(op: Op) -> tuple[int, int] | None:
    """Returns the axis that `op` gathers from, and how many batch axes there are."""
    rank, of_indices = op.rank(0), op.rank(1)
    axis = op.ints(2) if op.type == "GatherV2" else (0,)
    if rank is None or of_indices is None or axis is None:
        return None
    batch = op.attr("batch_dims", 0)
    return axis[0] % rank, batch + of_indices if batch < 0 else batch


@rule("GatherNd")
def gather_nd(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of indices, and rows on axes that are not indexed; see also `gather`."""
    size = own_rows.size_of_rows(op, 0)
    own = own_rows.demand(op, layouts, 1, [0], size, is_matrix=True)
    if own is not None:
        return Strategy((Shard(0), own), (Shard(0),))
    found = coordinates(op.rank(1), op.rank(0), _rank_of_taken(op))
    if found is None:
        return moved(op, layouts)
    outer, indexed, inner = found
    operands = ((*indexed, *inner), outer)
    return cut(op, layouts, operands, [(*outer, *inner)]) or moved(op, layouts)


def _rank_of_taken(op: Op) -> int | None:
    rank, indices = op.rank(0), op.dims(1)
    if rank is None or not indices or not isinstance(indices[-1], int):
        return None
    return len(indices) - 1 + rank - indices[-1]


def coordinates(
    rank: int | None, of_whole: int | None, of_entries: int | None
) -> tuple[Labels, Labels, Labels] | None:
    """Returns labels of the axes of coordinates and of the tensor that they index.

    Args:
        rank: The rank of the coordinates; their last axis counts indexed axes. None if not known.
        of_whole: The rank of the tensor that they index.
        of_entries: The rank of the indexed entries: their first axes are those of the coordinates.

    Returns:
        Labels of the coordinates' axes except the last; of the indexed axes; and of the axes after
        these, which are taken whole, () if their number is not known. None if `rank` is not known.
    """
    if not rank:
        return None
    outer = tuple(("outer", axis) for axis in range(rank - 1))
    if of_whole is None or of_entries is None:
        return outer, (), ()
    whole = of_entries - len(outer)
    return outer, (None,) * (of_whole - whole), tuple(("inner", axis) for axis in range(whole))


@rule("UnravelIndex")
def unravel_index(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Puts coordinates, which count entries of the whole, on an axis before that of rows."""
    if layouts[0] != Shard(0):
        return None
    return Strategy((Shard(0), WHOLE), (Shard(1),))


@rule("ResourceGather", "ResourceGatherNd")
def resource_gather(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of indices; the variable is the same for all towers."""
    indices, rank = layouts[1], op.rank(1)
    if not isinstance(indices, Shard) or rank is None:
        return None
    first = op.attr("batch_dims", 0)
    last = rank - 1 if op.type == "ResourceGatherNd" else rank
    if not 0 <= first <= indices.axis < last:
        return None
    return Strategy((WHOLE, indices), (indices,))


@rule("OneHot")
def one_hot(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Puts an axis of `depth` entries before or after that of rows."""
    indices, rank = layouts[0], op.rank(0)
    if not isinstance(indices, Shard) or rank is None:
        return None
    place = op.attr("axis") % (rank + 1)
    made = Shard(indices.axis + 1) if place <= indices.axis else indices
    return Strategy((indices, WHOLE, WHOLE, WHOLE), (made,))


@rule("Roll")
def roll(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on axes that are not shifted, and partials."""
    given, axes, rank = layouts[0], op.ints(2), op.rank(0)
    if not isinstance(given, Shard):
        return moved(op, layouts)
    if axes is None or rank is None or given.axis in [axis % rank for axis in axes]:
        return None
    return Strategy((given, WHOLE, WHOLE), (given,))
