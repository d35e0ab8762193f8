"""Rules for `Blocks`: axes with all rows several times, such as views of a batch, or time steps.

`tf.concat([view, other], 0)`, `tf.tile`, and a reshape of `[time, n, d]` to `[time * n, d]` make
blocks; slices, `tf.split` and the reverse reshape take them apart. In between, rules for rows
apply. For types that also have rules for `Indices`, `pointing.py` calls the functions of this file.
"""

from __future__ import annotations

import functools
import math
from typing import Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts import values
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

MOST = 1000
"""The largest number of blocks that are listed one by one."""


def is_free(op: Op) -> bool:
    """Whether an operation may make blocks or take them apart: loops only know rows."""
    return not graph_lib.in_while_loop(op.operation)


def can_be_listed(unit: Unit) -> bool:
    """Whether `parts_of` can list the blocks of a unit: rows count as one block."""
    if not isinstance(unit, Blocks):
        return unit == ROWS
    return isinstance(unit.many, int) and unit.many <= MOST


def unit_of(blocks: Dim) -> Unit:
    """Returns the unit of so many equal blocks."""
    return ROWS if blocks == 1 else Blocks(blocks)


def unit_of_parts(parts: Sequence[int]) -> Unit:
    """Returns the unit of blocks with so many entries for each row."""
    if len(set(parts)) == 1:
        return unit_of(len(parts))
    common = functools.reduce(math.gcd, parts)
    return Blocks(sum(parts) // common, tuple(part // common for part in parts))


def parts_of(unit: Unit, each: int) -> tuple[int, ...]:
    """Returns how many entries of each block a row has, if it has `each` of all of them."""
    if not isinstance(unit, Blocks):
        return (each,)
    assert isinstance(unit.many, int)  # See `can_be_listed`.
    return tuple(part * each // unit.many for part in unit.parts or (1,) * unit.many)


def concat(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Makes blocks of parts that are concatenated on their axis of rows."""
    if op.type != "ConcatV2" or not is_free(op):
        return None
    *given, _ = layouts
    axis, rank = op.ints(len(given)), op.rank(0)
    if axis is None or rank is None or len(given) < 2:
        return None
    place = axis[0] % rank
    each = [op.per_row(index, place) for index in range(len(given))]
    if len(set(each)) == 1 and each[0] is not None and set(given) <= {Shard(place), WHOLE}:
        return Strategy((*[Shard(place)] * len(given), WHOLE), (Shard(place, Blocks(len(given))),))
    return _concat_unequal(given, each, place)


def _concat_unequal(
    given: Sequence[Layout], each: Sequence[Dim | None], place: int
) -> Strategy | None:
    """Makes blocks of parts that have different numbers of entries for each row."""
    demands: list[Demand] = []
    parts: list[int] = []
    whole = 0  # How many entries for each row are to be split.
    for layout, many in zip(given, each):
        wanted = Shard(place) if layout == WHOLE else layout
        if not isinstance(many, int) or many < 1 or not isinstance(wanted, Shard):
            return None
        if wanted.axis != place or not can_be_listed(wanted.unit):
            return None
        demands.append(wanted)
        parts += parts_of(wanted.unit, many)
        whole += many if layout == WHOLE else 0
    # To split a table that is larger than the rows, and join it again, would cost more.
    if 2 * whole > sum(parts):
        return None
    return Strategy((*demands, WHOLE), (Shard(place, unit_of_parts(parts)),))


@pointing("Tile")
def tile(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Makes blocks by repeating all rows."""
    given, many = layouts[0], values.entries(op, 1)
    if not isinstance(given, Shard) or given.unit != ROWS or many is None or not is_free(op):
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
    if not isinstance(given, Shard) or given.axis or sides is None or not is_free(op):
        return None
    unit = _repeated(given.unit, dims_lib.product(sides), op.type.startswith("SpaceToBatch"))
    if unit is None:
        return None
    return Strategy((given, *[WHOLE] * (len(layouts) - 1)), (Shard(0, unit),))


def _repeated(unit: Unit, times: Dim, is_more: bool) -> Unit | None:
    """Returns the unit of all blocks of another one, `times` times, or the reverse of that."""
    if not isinstance(unit, Blocks) and unit != ROWS:
        return None
    if isinstance(unit, Blocks) and unit.parts:
        if not isinstance(times, int):
            return None
        if is_more:
            return unit_of_parts(unit.parts * times)
        once = unit.parts[: len(unit.parts) // times]
        return unit_of_parts(once) if once * times == unit.parts else None
    before = unit.many if isinstance(unit, Blocks) else 1
    after = dims_lib.times(before, times) if is_more else dims_lib.over(before, times)
    return None if after is None else unit_of(after)


def reshape(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Merges the axes before that of rows into it, which makes blocks, or splits them off."""
    given, dims, made = layouts[0], op.dims(0), op.dims_of(op.outputs[0])
    if not isinstance(given, Shard) or dims is None or made is None or not is_free(op):
        return None
    if given.unit == ROWS and given.axis:
        before = dims_lib.product(dims[: given.axis])
        each = dims_lib.over(made[0], before) if made else None
        # One block of rows is just the rows, for which `reshaping.py` has the rule. A row may leave
        # some of its entries to the next axis, or take them from there.
        if each is None or before == 1 or dims_lib.over(each, op.rows) is None:
            return None
        unit = Blocks(before)
        return Strategy((given, Share(0, unit)), (Shard(0, unit),))
    if not isinstance(given.unit, Blocks) or given.unit.parts or given.axis:
        return None
    # Find the axis that is left for rows if the axes before it are the blocks. Here, too, it may
    # leave entries of each row to the next axis, or take them from there.
    for axis in range(1, len(made)):
        is_whole = dims_lib.product(made[:axis]) == given.unit.many
        if is_whole and dims_lib.over(made[axis], op.rows) is not None:
            return Strategy((given, Share(axis)), (Shard(axis),))
    return None


def split(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Returns each block as an output."""
    axis, given = op.ints(0), layouts[1]
    rank = op.rank(1)
    if axis is None or rank is None or not isinstance(given, Shard) or not is_free(op):
        return None
    if given.axis != axis[0] % rank or given.unit != Blocks(op.attr("num_split")):
        return None
    return Strategy((WHOLE, given), (Shard(given.axis),) * len(op.outputs))
