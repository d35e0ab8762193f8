"""Rules for `Blocks`: axes with all rows several times, such as views of a batch, or time steps.

`tf.concat([view, other], 0)`, `tf.tile`, and a reshape of `[time, n, d]` to `[time * n, d]` make
blocks; slices, `tf.split` and the reverse reshape take them apart. In between, rules for rows
apply. For types that also have rules for `Indices`, `pointing.py` calls the functions of this file.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts import strides, values
from replicate.layouts.dims import ROWS, Dim
from replicate.layouts.layout import (
    WHOLE,
    Blocks,
    Demand,
    Layout,
    Shard,
    Share,
    Strategy,
    Unit,
)
from replicate.layouts.rule import Op, pointing
from replicate.layouts.shapes_of_layers import blocks_of_space


def _is_free(op: Op) -> bool:
    """Whether an operation may make blocks or take them apart: loops only know rows."""
    return not graph_lib.in_while_loop(op.operation)


def _unit_of(blocks: Dim) -> Unit:
    return ROWS if blocks == 1 else Blocks(blocks)


def concat(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Makes blocks of parts that are concatenated on their axis of rows."""
    if op.type != "ConcatV2" or not _is_free(op):
        return None
    *given, _ = layouts
    axis, rank = op.ints(len(given)), op.rank(0)
    if axis is None or rank is None:
        return None
    place = axis[0] % rank
    if not given or any(one not in (Shard(place), WHOLE) for one in given):
        return None
    each = {op.per_row(index, place) for index in range(len(given))}
    # Blocks are equally large.
    if len(each) != 1 or None in each or len(given) < 2 or Shard(place) not in given:
        return None
    return Strategy((*[Shard(place)] * len(given), WHOLE), (Shard(place, Blocks(len(given))),))


@pointing("Tile")
def tile(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Makes blocks by repeating all rows."""
    given, many = layouts[0], values.entries(op, 1)
    if not isinstance(given, Shard) or given.unit != ROWS or many is None or not _is_free(op):
        return None
    times = many[given.axis]
    if not isinstance(times, int) or times < 2 or layouts[1] != WHOLE:
        return None
    return Strategy((given, WHOLE), (Shard(given.axis, Blocks(times)),))


@pointing("SpaceToBatch", "SpaceToBatchND", "BatchToSpace", "BatchToSpaceND")
def space(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Makes a block of rows for each position in a spatial block, or the reverse.

    Dilated convolutions are computed this way.
    """
    given, sides = layouts[0], blocks_of_space(op)
    if not isinstance(given, Shard) or given.axis or sides is None or not _is_free(op):
        return None
    if given.unit != ROWS and not isinstance(given.unit, Blocks):
        return None
    before = given.unit.many if isinstance(given.unit, Blocks) else 1
    many = dims_lib.product(sides)
    to_batch = op.type.startswith("SpaceToBatch")
    after = dims_lib.times(before, many) if to_batch else dims_lib.over(before, many)
    if after is None:
        return None
    return Strategy((given, *[WHOLE] * (len(layouts) - 1)), (Shard(0, _unit_of(after)),))


def reshape(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Merges the axes before that of rows into it, which makes blocks, or splits them off."""
    given, dims, made = layouts[0], op.dims(0), op.dims_of(op.outputs[0])
    if not isinstance(given, Shard) or dims is None or made is None or not _is_free(op):
        return None
    if given.unit == ROWS and given.axis:
        before = dims_lib.product(dims[: given.axis])
        # One block of rows is just the rows, for which `reshaping.py` has the rule.
        if not made or made[0] != dims_lib.times(before, dims[given.axis]) or before == 1:
            return None
        unit = Blocks(before)
        return Strategy((given, Share(0, unit)), (Shard(0, unit),))
    if not isinstance(given.unit, Blocks) or given.axis:
        return None
    # Find the axis that is left for rows if the axes before it are the blocks.
    for axis in range(1, len(made)):
        joined = dims_lib.product(made[: axis + 1])
        if dims_lib.product(made[:axis]) == given.unit.many and joined == dims[0]:
            return Strategy((given, Share(axis)), (Shard(axis),))
    return None


def split(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Returns each block as an output."""
    axis, given = op.ints(0), layouts[1]
    rank = op.rank(1)
    if axis is None or rank is None or not isinstance(given, Shard) or not _is_free(op):
        return None
    if given.axis != axis[0] % rank or given.unit != Blocks(op.attr("num_split")):
        return None
    return Strategy((WHOLE, given), (Shard(given.axis),) * len(op.outputs))


class _Taken(NamedTuple):
    """Blocks that are taken: the first one, how many, and the number of entries of each."""

    first: int
    many: int
    block: Dim


def _taken(op: Op, unit: Unit, size: Dim, low: Dim | None, high: Dim | None) -> _Taken | None:
    """Returns the blocks of an axis from `low` to `high`, None unless these are whole blocks."""
    if not isinstance(unit, Blocks) or low is None or high is None:
        return None
    block = dims_lib.over(size, unit.many)
    if block is None or dims_lib.over(block, op.rows) is None:
        return None
    first = 0 if low == 0 else dims_lib.over(low, block)
    last = dims_lib.over(high, block)
    if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first < last:
        return None
    # TensorFlow takes fewer entries than it is asked for if there are no more.
    if not isinstance(unit.many, int) or last > unit.many:
        return None
    return _Taken(first, last - first, block)


def slice_(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Takes whole blocks."""
    given, dims = layouts[0], op.dims(0)
    begin, size = values.entries(op, 1), values.entries(op, 2)
    if not isinstance(given, Shard) or dims is None or begin is None or size is None:
        return None
    low, many = begin[given.axis], size[given.axis]
    if low is None or many is None or many == -1 or not _is_free(op):
        return None
    taken = _taken(op, given.unit, dims[given.axis], low, dims_lib.added(low, many))
    if taken is None:
        return None
    unit = _unit_of(taken.many)
    starts: Demand = WHOLE if low == 0 else Share(given.axis)
    return Strategy((given, starts, Share(given.axis, unit)), (Shard(given.axis, unit),))


def strided_slice(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Takes whole blocks, such as `views[:n]`."""
    given, dims = layouts[0], op.dims(0)
    if not isinstance(given, Shard) or dims is None or not _is_free(op):
        return None
    found = _bounds(op, given.axis, given.unit, dims)
    if found is None:
        return None
    made, taken, bounds = found
    size = dims_lib.times(taken.block, taken.many)
    return Strategy((given, *bounds, WHOLE), (Shard(made, _unit_of(taken.many)),), (size,))


@pointing("StridedSliceGrad")
def strided_slice_grad(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Puts one block back among blocks of zeros."""
    shape, given = op.value(0), layouts[4]
    if not isinstance(given, Shard) or shape is None or not _is_free(op):
        return None
    steps = strides.steps(op, len(shape))
    axis = next((step.axis for step in steps or () if step.made == given.axis), None)
    inner = op.dims(4)
    if axis is None or inner is None:
        return None
    many = dims_lib.over(shape[axis], inner[given.axis]) if given.unit == ROWS else None
    # The gradient has the rows of one block; the result has a known number of them.
    if many is None or not isinstance(many, int) or many < 2:
        return None
    unit = Blocks(many)
    found = _bounds(op, axis, unit, list(shape))
    if found is None or found[1].many != 1:
        return None
    return Strategy((Share(axis, unit), *found[2], WHOLE, given), (Shard(axis, unit),))


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
    begin: Demand = WHOLE if taken.first == 0 else share
    is_open = op.attr("end_mask") >> step.place & 1
    return step.made, taken, (begin, WHOLE if is_open else share)
