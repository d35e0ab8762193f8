"""Rules for slices of `Blocks`: those that take whole blocks, and their gradients.

For types that also have rules for `Indices`, `pointing.py` calls the functions of this file.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, Sequence

from replicate.layouts import dims as dims_lib
from replicate.layouts import strides, values
from replicate.layouts.dims import Dim
from replicate.layouts.layout import WHOLE, Blocks, Demand, Layout, Shard, Share, Strategy, Unit
from replicate.layouts.rule import Op, pointing
from replicate.layouts.rules.blocks import (
    MOST,
    can_be_listed,
    is_free,
    parts_of,
    unit_of,
    unit_of_parts,
)


class _Taken(NamedTuple):
    """Blocks that are taken: their unit, how many entries they have, and whether they are first."""

    unit: Unit
    size: Dim
    are_first: bool


def _taken(op: Op, unit: Unit, size: Dim, low: Dim | None, high: Dim | None) -> _Taken | None:
    """Returns the blocks of an axis from `low` to `high`, None unless these are whole blocks."""
    if not isinstance(unit, Blocks) or not isinstance(unit.many, int):
        return None
    if low is None or high is None:
        return None
    step = dims_lib.over(size, unit.many)
    if step is None or dims_lib.over(step, op.rows) is None:
        return None
    first = 0 if low == 0 else dims_lib.over(low, step)
    last = dims_lib.over(high, step)
    # TensorFlow takes fewer entries than it is asked for if there are no more.
    if not isinstance(first, int) or not isinstance(last, int) or first >= last:
        return None
    ends = [0, *itertools.accumulate(unit.parts)] if unit.parts else range(unit.many + 1)
    if first not in ends or last not in ends:
        return None
    parts = unit.parts[ends.index(first) : ends.index(last)]
    made = unit_of_parts(parts) if parts else unit_of(last - first)
    return _Taken(made, dims_lib.times(step, last - first), first == 0)


def slice_(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Takes whole blocks."""
    given, dims = layouts[0], op.dims(0)
    begin, size = values.entries(op, 1), values.entries(op, 2)
    if not isinstance(given, Shard) or dims is None or begin is None or size is None:
        return None
    low, many = begin[given.axis], size[given.axis]
    if low is None or many is None or many == -1 or not is_free(op):
        return None
    taken = _taken(op, given.unit, dims[given.axis], low, dims_lib.added(low, many))
    if taken is None:
        return None
    starts: Demand = WHOLE if low == 0 else Share(given.axis)
    made = Shard(given.axis, taken.unit)
    return Strategy((given, starts, Share(given.axis, taken.unit)), (made,))


@pointing("SplitV")
def split_by_sizes(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Takes blocks apart by their sizes."""
    given, dims, sizes, axis = layouts[0], op.dims(0), values.entries(op, 1), op.ints(2)
    if not isinstance(given, Shard) or dims is None or sizes is None or axis is None:
        return None
    if axis[0] % len(dims) != given.axis or not is_free(op):
        return None
    made: list[_Taken] = []
    low: Dim = 0
    for place, size in enumerate(sizes):
        is_rest = place == len(sizes) - 1 and size == -1
        high = dims[given.axis] if is_rest else None if size is None else dims_lib.added(low, size)
        taken = _taken(op, given.unit, dims[given.axis], low, high)
        if taken is None or high is None:
            return None
        made.append(taken)
        low = high
    outputs = tuple(Shard(given.axis, taken.unit) for taken in made)
    return Strategy((given, Share(None), WHOLE), outputs, tuple(taken.size for taken in made))


def strided_slice(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Takes whole blocks, such as `views[:n]`."""
    given, dims = layouts[0], op.dims(0)
    if not isinstance(given, Shard) or dims is None or not is_free(op):
        return None
    found = _bounds(op, given.axis, given.unit, dims)
    if found is None:
        return None
    made, taken, bounds = found
    return Strategy((given, *bounds, WHOLE), (Shard(made, taken.unit),), (taken.size,))


@pointing("StridedSliceGrad")
def strided_slice_grad(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Puts blocks back among blocks of zeros."""
    shape, given = op.value(0), layouts[4]
    if not isinstance(given, Shard) or shape is None or not is_free(op):
        return None
    steps = strides.steps(op, len(shape))
    along = next((step for step in steps or () if step.made == given.axis), None)
    inner, sizes = op.dims(4), list(shape)
    if along is None or along.place is None or along.axis is None or inner is None:
        return None
    axis = along.axis
    low, _, _ = strides.taken_range(op, along.place, sizes[axis])
    if low is None:
        return None
    unit = _unit_around(given.unit, inner[given.axis], low, sizes[axis], op.rows)
    found = None if unit is None else _bounds(op, axis, unit, sizes)
    if unit is None or found is None or found[1].unit != given.unit:
        return None
    return Strategy((Share(axis, unit), *found[2], WHOLE, given), (Shard(axis, unit),))


def _unit_around(unit: Unit, inner: Dim, low: Dim, size: Dim, rows: Dim) -> Unit | None:
    """Returns the unit of an axis of `size` that has blocks of another unit from `low` on.

    Args:
        unit: The unit of the blocks.
        inner: How many entries they have together.
        low: The first of these.
        size: The number of entries with those of zeros before and after them.
        rows: n.
    """
    if not can_be_listed(unit):
        return None
    many = unit.many if isinstance(unit, Blocks) else 1
    # If rows have an unknown number of entries, count by the unit.
    step = rows if isinstance(dims_lib.over(inner, rows), int) else dims_lib.over(inner, many)
    if step is None:
        return None
    before = 0 if low == 0 else dims_lib.over(low, step)
    taken, total = dims_lib.over(inner, step), dims_lib.over(size, step)
    if not (isinstance(before, int) and isinstance(taken, int) and isinstance(total, int)):
        return None
    parts, after = parts_of(unit, taken), total - before - taken
    least = min(parts)

    def zeros(many: int) -> tuple[int, ...]:
        # Blocks are mostly of one size.
        is_alike = many % least == 0 and many // least <= MOST
        return (least,) * (many // least) if is_alike else (many,)

    return None if after < 0 else unit_of_parts((*zeros(before), *parts, *zeros(after)))


def _bounds(
    op: Op, axis: int, unit: Unit, dims: Sequence[Dim]
) -> tuple[int, _Taken, tuple[Demand, Demand]] | None:
    """Returns the axis in the result, the blocks that are taken, and the demands of the bounds."""
    steps = strides.steps(op, len(dims))
    step = next((one for one in steps or () if one.axis == axis), None)
    if step is None or step.place is None or step.made is None:
        return None
    low, high, stride = strides.taken_range(op, step.place, dims[axis])
    taken = _taken(op, unit, dims[axis], low, high) if stride == 1 else None
    if taken is None:
        return None
    # Bounds in a tower are multiples of its own rows. A begin of 0, or an open end, stays the same.
    share = Share(step.place)
    begin: Demand = WHOLE if taken.are_first else share
    is_open = op.attr("end_mask") >> step.place & 1
    return step.made, taken, (begin, WHOLE if is_open else share)
