"""Operations that change the axes of a tensor, or repeat its entries along axes."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts import dims as dims_lib
from replicate.layouts import shapes, values
from replicate.layouts.dims import Dim
from replicate.layouts.layout import WHOLE, Demand, Layout, Shard, Share, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.moves import entry_of_rows, moved


@rule("Reshape")
def reshape(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows if the axes before them have as many entries as in the input.

    So rows may be on the first of several axes that are merged, and are on the first of several
    axes into which one is split.
    """
    given, shape = layouts
    if not isinstance(given, Shard) or shape != WHOLE:
        return moved(op, layouts)
    before, after = op.dims(0), values.entries(op, 1)
    if before is None or after is None:
        return None
    place = _place_of_rows(op.rows, before, given.axis, list(after))
    if place is None:
        return None
    # Each tower resolves -1 to the size of its own rows.
    return Strategy((given, WHOLE if after[place] == -1 else Share(place)), (Shard(place),))


def _place_of_rows(
    rows: Dim, before: Sequence[Dim], axis: int, after: Sequence[Dim | None]
) -> int | None:
    """Returns the new position of the axis of rows, which was `axis`, None if there is none.

    The axes after it may differ, since each row keeps its entries in the same order.
    """
    if not dims_lib.over(before[axis], rows):
        return None
    known = shapes.resolved(after, before)
    left = dims_lib.product(before[:axis])
    for place, size in enumerate(known):
        many = None if size is None else dims_lib.over(size, rows)
        # With other axes before it, the entries of a row would not be where they were.
        first = [one for one in known[:place] if one is not None]
        if many and len(first) == place and dims_lib.product(first) == left:
            return place
    return None


@rule("Transpose", "ConjugateTranspose")
def transpose(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Moves the axis of rows as the permutation says."""
    given, order = layouts[0], values.entries(op, 1)
    if not isinstance(given, Shard):
        return moved(op, layouts)
    if order is None or given.axis not in list(order):
        return None
    return Strategy((given, WHOLE), (Shard(list(order).index(given.axis)),))


@rule("ExpandDims")
def expand_dims(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Moves the axis of rows if the new axis comes before it."""
    given, rank, axis = layouts[0], op.rank(0), op.ints(1)
    if not isinstance(given, Shard):
        return moved(op, layouts)
    if rank is None or axis is None:
        return None
    # A negative axis counts from the end of the result, which has one axis more.
    before = axis[0] % (rank + 1) <= given.axis
    return Strategy((given, WHOLE), (Shard(given.axis + before),))


@rule("Squeeze")
def squeeze(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Moves the axis of rows if axes before it are removed."""
    (given,) = layouts
    if not isinstance(given, Shard):
        return moved(op, layouts)
    axes = _squeezed(op, given.axis)
    if axes is None or given.axis in axes:
        return None
    return Strategy((given,), (Shard(given.axis - sum(axis < given.axis for axis in axes)),))


def _squeezed(op: Op, of_rows: int) -> set[int] | None:
    """Returns the axes that are removed, None if they may differ among towers."""
    named, dims = op.attr("squeeze_dims"), op.dims(0)
    if dims is None:
        return None
    if named:
        return {axis % len(dims) for axis in named}
    others = [size for axis, size in enumerate(dims) if axis != of_rows]
    each = op.per_row(0, of_rows)
    # Without given axes, all axes of one entry are removed, even that of rows if a tower has one.
    if not all(isinstance(size, int) for size in (*others, each)) or each == 1:
        return None
    return {axis for axis, size in enumerate(dims) if size == 1 and axis != of_rows}


@rule("Bitcast")
def bitcast(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows, unless they are on the last axis and it is merged into wider entries."""
    (given,), rank = layouts, op.rank(0)
    if not isinstance(given, Shard):
        return None
    size, made = (tensors[0].dtype.size for tensors in (op.inputs, op.outputs))
    if size < made and (rank is None or given.axis == rank - 1):
        return None
    return Strategy((given,), (given,))


@rule("Tile")
def tile(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on an axis that is not repeated; repeats a whole tensor for a tower's rows."""
    given, many = layouts[0], values.entries(op, 1)
    if isinstance(given, Shard):
        kept = many is not None and many[given.axis] == 1
        return Strategy((given, WHOLE), (given,)) if kept else None
    place, dims = entry_of_rows(op, 1), op.dims(0)
    if place is None or layouts[1] != WHOLE:
        return moved(op, layouts)
    if dims is None or dims[place] == 0:
        return None  # An empty axis stays empty, so it does not get rows.
    return Strategy((WHOLE, Share(place)), (Shard(place),))


@rule("BroadcastTo")
def broadcast_to(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows; broadcasts a whole tensor to the rows of each tower."""
    given, shape, rank = layouts[0], values.entries(op, 1), op.rank(0)
    if isinstance(given, Shard):
        place = None if shape is None or rank is None else given.axis + len(shape) - rank
        size = None if place is None or shape is None else shape[place]
        if place is None or size is None or not dims_lib.over(size, op.rows):
            return None
        return Strategy((given, Share(place)), (Shard(place),))
    place = entry_of_rows(op, 1)
    if place is None or layouts[1] != WHOLE:
        return moved(op, layouts)
    demand = _aligned(op, place)
    return None if demand is None else Strategy((demand, Share(place)), (Shard(place),))


def _aligned(op: Op, place: int) -> Demand | None:
    """Returns the demand of a tensor that is broadcast to a shape with rows at `place`."""
    dims, shape = op.dims(0), op.value(1)
    if dims is None or shape is None:
        return None
    axis = place + len(dims) - len(shape)
    # Without that axis, or with one entry on it, the tensor is repeated for every row.
    return WHOLE if axis < 0 or dims[axis] == 1 else Shard(axis)


@rule("Fill")
def fill(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Fills the rows of each tower."""
    place = entry_of_rows(op, 0)
    if place is None or layouts[0] != WHOLE:
        return moved(op, layouts, data=(1,))
    return Strategy((Share(place), WHOLE), (Shard(place),))
