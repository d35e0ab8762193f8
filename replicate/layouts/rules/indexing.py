"""Operations that take entries by their indices, and the reverse of `ArgMax`: `OneHot`.

Indices count through the whole's entries. So what they count through stays whole, or its rows are
on another axis; the indices may have rows themselves, and then so has what is taken.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import WHOLE, Layout, Shard, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import Labels, cut
from replicate.layouts.rules.moves import moved


@rule("Gather", "GatherV2")
def gather(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of batch axes, of indices, and of axes that are not gathered from."""
    params, indices, *rest = layouts
    axes = _axes(op)
    if axes is None:
        return None
    axis, batch = axes
    others, of_indices = (WHOLE,) * len(rest), op.rank(1)
    for layout in (params, indices):
        if isinstance(layout, Shard) and layout.axis < batch:
            return Strategy((layout, layout, *others), (layout,))
    if isinstance(params, Shard) and params.axis != axis and of_indices is not None:
        # The axes of the indices, but for batch axes, are where the gathered axis was.
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
    """Keeps rows of indices, and of axes that are taken whole."""
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
    """Returns labels of axes by what coordinates do with them, None if their rank is not known.

    Args:
        rank: The number of axes of the coordinates; the last one counts axes.
        of_whole: That of what they point into.
        of_entries: That of what is there: the first axes are the coordinates'.

    Returns:
        Labels of the axes of the coordinates but the last; of the axes that they count through; of
        the axes after these, which are taken whole, none if their number is not known.
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
    """Puts coordinates on an axis before that of rows; they are those of a whole."""
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
    """Keeps rows on axes whose entries are not shifted, and parts."""
    given, axes, rank = layouts[0], op.ints(2), op.rank(0)
    if not isinstance(given, Shard):
        return moved(op, layouts)
    if axes is None or rank is None or given.axis in [axis % rank for axis in axes]:
        return None
    return Strategy((given, WHOLE, WHOLE), (given,))
