"""Rules for `Indices` into a tower's rows or values: operations that make them and keep them.

`tf.where` and `tf.boolean_mask` make them, and sparse tensors contain them. An index that counts
the tower's rows can be used without data of other towers. If no rule applies, indices are converted
to those of one device.
"""

from __future__ import annotations

from typing import Any, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts import strides, values
from replicate.layouts.dims import ROWS, Dim
from replicate.layouts.layout import (
    WHOLE,
    Demand,
    Indices,
    Layout,
    Shard,
    Share,
    Strategy,
    count,
)
from replicate.layouts.rule import Op, pointing
from replicate.layouts.rules import block_slices, blocks


def counted(op: Op, index: int = 0) -> str | None:
    """Returns the name of the size of axis 0 of an output, None if a loop may change it."""
    dims = op.dims_of(op.outputs[index])
    return None if not dims or dims_lib.is_of_loop(dims[0]) else dims_lib.name_of(dims[0]) or None


def pointed_to(op: Op, indices: Indices) -> Dim:
    """Returns the size of the axis that is indexed."""
    return dims_lib.times(count(indices.within, op.rows), indices.each)


@pointing("Where")
def where(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Finds entries of a tower's rows; in the order of towers, these are one device's."""
    (given,), unit, dims = layouts, counted(op), op.dims(0)
    if not isinstance(given, Shard) or given.axis != 0 or unit is None or dims is None:
        return None
    if not isinstance(given.unit, str):
        # Of blocks, one device finds all entries of one before those of the next.
        return None
    each = dims_lib.over(dims[0], count(given.unit, op.rows))
    if each is None:
        return None
    return Strategy((given,), (Indices(unit, given.unit, each, is_matrix=True),))


@pointing("Range")
def number(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Numbers the rows: each tower numbers its rows from 0.

    If n is known, a range of that length may count something else. So n must not be known.
    """
    limit = op.value(1)
    size = None if limit is None else limit.item()
    each = None if size is None or not dims_lib.holds_rows(size) else dims_lib.over(size, op.rows)
    if each is None or op.ints(0) != (0,) or op.ints(2) != (1,):
        return None
    if graph_lib.in_while_loop(op.operation):
        return None
    made = Indices(ROWS, each=each, is_full=True)
    return Strategy((WHOLE, Share(0), WHOLE), (made,), (size,))


def is_range(tensor: Any) -> bool:
    """Whether a tensor numbers the entries of an axis."""
    while tensor.op.type in ("Identity", "Reshape", "Cast"):
        tensor = tensor.op.inputs[0]
    return bool(tensor.op.type == "Range")


@pointing("DynamicPartition")
def partition(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Sorts a tower's rows into parts; indices among them stay valid."""
    data, by = layouts
    found = [counted(op, index) for index in range(len(op.outputs))]
    known = [unit for unit in found if unit is not None]
    if not isinstance(by, Shard) or by.axis != 0 or len(known) < len(found):
        return None
    if not isinstance(by.unit, str):
        return None
    if isinstance(data, Indices):
        if data.unit != by.unit or op.rank(1) != 1:
            return None
        return Strategy(
            (data, by), tuple(data._replace(unit=unit, is_full=False) for unit in known)
        )
    return Strategy((by, by), tuple(Shard(0, unit) for unit in known))


@pointing("Identity", "StopGradient", "PreventGradient", "Snapshot", "Cast")
def same(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps indices as they are."""
    if not isinstance(layouts[0], Indices) or op.outputs[0].dtype.name not in ("int32", "int64"):
        return None
    return Strategy(tuple(layouts), tuple(layouts))


@pointing("IdentityN")
def identities(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Passes on each input as it is, whatever units they count."""
    return Strategy(tuple(layouts), tuple(layouts))


@pointing("StridedSlice")
def strided_slice(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Takes columns: only the first one holds indices."""
    given, dims = layouts[0], op.dims(0)
    if not isinstance(given, Indices):
        return block_slices.strided_slice(op, layouts)
    if not given.is_matrix or dims is None or len(dims) != 2:
        return None
    steps = strides.steps(op, 2)
    if steps is None or [step.axis for step in steps] != [0, 1]:
        return None
    along, columns = steps
    size = count(given.unit, op.rows)
    if dims[0] != size or along.made is None:
        return None
    if not strides.takes_of_each(op, along, size, size):
        return None
    demands: tuple[Demand, ...] = (given, WHOLE, WHOLE, WHOLE)
    if columns.place is None:
        return Strategy(demands, (given,))
    low, high, stride = strides.taken_range(op, columns.place, dims[1])
    if not (isinstance(low, int) and isinstance(high, int) and isinstance(dims[1], int)):
        return None
    taken = range(dims[1])[low:high] if columns.made is not None else range(dims[1])[low:][:1]
    if not taken or stride != 1:
        return None
    if taken[0]:  # Column 0 is left out: only other columns remain.
        return Strategy(demands, (Shard(0, given.unit),))
    return Strategy(demands, (given._replace(is_matrix=columns.made is not None),))


@pointing("Slice")
def slice_(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Takes columns, like `StridedSlice`."""
    given, begin, size = layouts[0], values.entries(op, 1), values.entries(op, 2)
    if not isinstance(given, Indices):
        return block_slices.slice_(op, layouts)
    if not given.is_matrix or begin is None or size is None:
        return None
    if len(begin) != 2 or begin[0] != 0 or size[0] != -1 or not isinstance(begin[1], int):
        return None
    if not isinstance(size[1], int) or size[1] == 0:
        return None  # Without columns, there are no indices.
    made = given if begin[1] == 0 else Shard(0, given.unit)
    return Strategy((given, WHOLE, WHOLE), (made,))


@pointing("Reshape", "Squeeze", "ExpandDims")
def reshape(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Turns a vector into a column, or the reverse."""
    given, dims, made = layouts[0], op.dims(0), op.dims_of(op.outputs[0])
    if not isinstance(given, Indices) and op.type == "Reshape":
        return blocks.reshape(op, layouts)
    if not isinstance(given, Indices) or dims is None or made is None or not 0 < len(made) < 3:
        return None
    size = (count(given.unit, op.rows),)
    if dims[:1] != size or made[:1] != size or any(one != 1 for one in (*dims[1:], *made[1:])):
        return None
    others: tuple[Demand, ...] = (WHOLE,) * (len(layouts) - 1)
    if op.type == "Reshape":
        others = (Share(0, given.unit),)
    return Strategy((given, *others), (given._replace(is_matrix=len(made) == 2),))


def _has_columns(op: Op, index: int) -> bool:
    """Whether an operand is a matrix with a known number of columns."""
    dims = op.dims(index)
    return dims is not None and len(dims) == 2 and isinstance(dims[1], int)


@pointing("ConcatV2", "Pack")
def join(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Joins columns, of which the first one holds indices."""
    given, *rest = layouts
    if not isinstance(given, Indices):
        return blocks.concat(op, layouts)
    is_stack = op.type == "Pack"
    axis = op.attr("axis") if is_stack else (op.ints(len(layouts) - 1) or (None,))[0]
    last: list[Demand] = []
    if not is_stack:
        last, rest = [WHOLE], rest[:-1]
    if axis not in (1, -1) or given.is_matrix == is_stack:
        return None
    if not is_stack and not all(_has_columns(op, index) for index in range(len(rest) + 1)):
        return None  # The offset of indices needs the number of columns.
    demands = [given, *[Shard(0, given.unit)] * len(rest), *last]
    return Strategy(tuple(demands), (given._replace(is_matrix=True),))


@pointing("Unpack", "Split")
def apart(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits columns, of which the first one holds indices."""
    is_split = op.type == "Split"
    given, dims = layouts[is_split], op.dims(is_split)
    if is_split and not isinstance(given, Indices):
        return blocks.split(op, layouts)
    axis = (op.ints(0) or (None,))[0] if is_split else op.attr("axis")
    if not isinstance(given, Indices) or not given.is_matrix or dims is None:
        return None
    if axis not in (1, -1) or (is_split and dims[1] != len(op.outputs)):
        return None
    demands = (WHOLE, given) if is_split else (given,)
    others = [Shard(0, given.unit)] * (len(op.outputs) - 1)
    return Strategy(demands, (given._replace(is_matrix=is_split), *others))


@pointing("Gather", "GatherV2")
def gather(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Takes entries by indices from the tower's own data; indices that are taken stay valid."""
    params, indices, *rest = layouts
    axis = op.ints(2) if op.type == "GatherV2" else (0,)
    dims = op.dims(0)
    if not isinstance(indices, Indices) or axis != (0,) or op.attr("batch_dims", 0) or not dims:
        return None
    if indices.is_matrix and op.dims(1) != (count(indices.unit, op.rows), 1):
        return None
    if dims[0] != pointed_to(op, indices):
        return None
    made: Layout = Shard(0, indices.unit)
    demand: Demand = Shard(0, indices.within)
    if isinstance(params, Indices) and not indices.is_matrix and params.unit == indices.within:
        demand, made = params, params._replace(unit=indices.unit, is_full=False)
    return Strategy((demand, indices, *[WHOLE] * len(rest)), (made,))


@pointing("GatherNd")
def gather_nd(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Takes entries by coordinates from the tower's own data."""
    _, indices = layouts
    dims = op.dims(0)
    if not isinstance(indices, Indices) or not indices.is_matrix or not dims:
        return None
    if dims[0] != pointed_to(op, indices):
        return None
    return Strategy((Shard(0, indices.within), indices), (Shard(0, indices.unit),))


@pointing("ScatterNd")
def scatter_nd(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Writes a tower's entries to its own rows, by coordinates."""
    indices, shape = layouts[0], op.value(2)
    if not isinstance(indices, Indices) or not indices.is_matrix or shape is None:
        return None
    size = pointed_to(op, indices)
    if shape[0] != size:
        return None
    demands = (indices, Shard(0, indices.unit), Share(0, indices.within))
    return Strategy(demands, (Shard(0, indices.within),), (size,))
