"""Operations that concatenate or split tensors along an axis; rows are on another axis."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import WHOLE, Layout, Shard, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.moves import moved


@rule("Concat", "ConcatV2")
def concat(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Concatenates along an axis that is not that of rows."""
    last = len(layouts) - 1
    along, data = (last, range(last)) if op.type == "ConcatV2" else (0, range(1, last + 1))
    parts = [layouts[index] for index in data]
    if not any(isinstance(layout, Shard) for layout in parts):
        return moved(op, layouts, data)
    rank, axis = _rank(op, data), op.ints(along)
    if rank is None or axis is None:
        return None
    rows = _common(parts, without=axis[0] % rank)
    if rows is None:
        return None
    wanted = [WHOLE if index == along else rows for index in range(len(layouts))]
    return Strategy(tuple(wanted), (rows,))


def _rank(op: Op, data: Sequence[int]) -> int | None:
    """Returns the common rank of some tensors, None if it is not known of any."""
    known = [op.rank(index) for index in data]
    return next((rank for rank in known if rank is not None), None)


def _common(layouts: Sequence[Layout], without: int | None = None) -> Shard | None:
    """Returns the shard that most tensors have; shards on axis `without` do not count."""
    found = [one for one in layouts if isinstance(one, Shard) and one.axis != without]
    # Then the fewest tensors have to be converted.
    return max(found, key=found.count) if found else None


@rule("Pack")
def pack(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Stacks tensors, and moves the axis of rows if the new one comes before it."""
    data = range(len(layouts))
    rows, rank = _common(layouts), _rank(op, data)
    if rows is None:
        return moved(op, layouts, data)
    if rank is None:
        return None
    before = op.attr("axis") % (rank + 1) <= rows.axis
    return Strategy((rows,) * len(layouts), (Shard(rows.axis + before),))


@rule("Unpack")
def unpack(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Unstacks along an axis that is not that of rows."""
    (given,), rank = layouts, op.rank(0)
    if not isinstance(given, Shard):
        return moved(op, layouts)
    axis = op.attr("axis") if rank is None else op.attr("axis") % rank
    # A negative axis of an unknown rank may be that of rows.
    if axis < 0 or axis == given.axis:
        return None
    return Strategy((given,), (Shard(given.axis - (axis < given.axis)),) * len(op.outputs))


@rule("Split", "SplitV")
def split(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits along an axis that is not that of rows, or into a single part."""
    data, along = (1, 0) if op.type == "Split" else (0, 2)
    given, axis, rank = layouts[data], op.ints(along), op.rank(data)
    if not isinstance(given, Shard):
        return moved(op, layouts, (data,))
    # A single part is the input itself. `SplitV` names its size, which is that of the whole batch.
    alone = len(op.outputs) == 1 and op.type == "Split"
    if not alone and (axis is None or rank is None or axis[0] % rank == given.axis):
        return None
    wanted = [given if index == data else WHOLE for index in range(len(layouts))]
    return Strategy(tuple(wanted), (given,) * len(op.outputs))
