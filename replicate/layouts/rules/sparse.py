"""Operations on sparse tensors: indices [m, rank], values [m], and a shape, with rows on axis 0.

A tower has the values of its rows, indices that count these rows, and a shape with their number.
On other axes, the shape is that of one device.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import ROWS, Dim
from replicate.layouts.layout import (
    SIZE,
    SUM,
    WHOLE,
    Demand,
    Indices,
    Layout,
    Shard,
    Share,
    Strategy,
)
from replicate.layouts.rule import Op, pointing
from replicate.layouts.rules.pointing import counted, pointed_to


def _is_sparse(op: Op, indices: Layout, shape: int) -> bool:
    """Whether indices belong to a sparse tensor whose shape, input `shape`, has their rows."""
    if not isinstance(indices, Indices):
        return False
    value = op.value(shape)
    return value is not None and value.ndim == 1 and value[0] == pointed_to(op, indices)


def _sparse(op: Op, layouts: Sequence[Layout], shape: int, at: int = 0) -> Indices | None:
    """Returns the indices of a sparse tensor, None if it is not split among towers."""
    indices = layouts[at]
    if not isinstance(indices, Indices) or not indices.is_matrix:
        return None
    return indices if _is_sparse(op, indices, shape) else None


def _demands(indices: Indices) -> tuple[Demand, Demand, Demand]:
    """Returns the demands of the indices, the values and the shape of a sparse tensor."""
    return indices, Shard(0, indices.unit), Share(0, indices.within)


@pointing("SparseReshape")
def reshape(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows on axis 0, if each becomes a whole number of entries there."""
    given, new = layouts[0], op.value_of(op.outputs[1])
    if not isinstance(given, Indices) or not _is_sparse(op, given, 1) or new is None:
        return None
    each = dims_lib.over(new[0], op.rows)
    if each is None or given.within != dims_lib.ROWS:
        return None
    share = Share(0, given.within)
    # If rows become several entries each, not all of these need to occur.
    is_full = given.is_full and each == given.each
    made = given._replace(each=each, is_matrix=True, is_full=is_full)
    return Strategy((given, share, share), (made, SIZE))


@pointing("SparseFillEmptyRows")
def fill_empty_rows(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Adds a value to each row that has none."""
    found, unit = _sparse(op, layouts, 2), counted(op)
    if found is None or unit is None:
        return None
    made = found._replace(unit=unit, is_full=True)
    back = Indices(found.unit, within=unit)
    rows = Shard(0, found.within)
    return Strategy((*_demands(found), WHOLE), (made, Shard(0, unit), rows, back))


@pointing("SparseFillEmptyRowsGrad")
def fill_empty_rows_grad(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Returns gradients of the values, and adds up those of the default value."""
    back, dims = layouts[0], op.dims(1)
    if not isinstance(back, Indices) or not dims or dims[0] != pointed_to(op, back):
        return None
    return Strategy((back, Shard(0, back.within)), (Shard(0, back.unit), SUM))


@pointing("SparseReorder")
def reorder(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Sorts a tower's values; rows, the first column, decide first."""
    found = _sparse(op, layouts, 2)
    if found is None:
        return None
    return Strategy(_demands(found), (found._replace(is_full=False), Shard(0, found.unit)))


@pointing("SparseToDense")
def to_dense(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Makes the dense rows of a tower."""
    indices = layouts[0]
    if not isinstance(indices, Indices) or not _is_sparse(op, indices, 1):
        return None
    values = WHOLE if op.rank(2) == 0 else Shard(0, indices.unit)
    demands = (indices, Share(0, indices.within), values, WHOLE)
    return Strategy(demands, (Shard(0, indices.within),), (pointed_to(op, indices),))


@pointing("SparseTensorDenseMatMul")
def matmul(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of the sparse matrix, or adds up over them where it is transposed."""
    found = _sparse(op, layouts, 2)
    if found is None:
        return None
    size = pointed_to(op, found)
    rows = Shard(0, found.within)
    if not op.attr("adjoint_a"):
        return Strategy((*_demands(found), WHOLE), (rows,), (size,))
    other, dims = rows._replace(axis=int(op.attr("adjoint_b"))), op.dims(3)
    if dims is None or dims[other.axis] != size:
        return None
    return Strategy((*_demands(found), other), (SUM,))


@pointing("SparseReduceSum", "SparseReduceMax")
def reduction(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows that are not reduced."""
    found, axes, dims = _sparse(op, layouts, 2), op.ints(3), op.dims(0)
    if found is None or axes is None or dims is None or not isinstance(dims[1], int) or not axes:
        return None
    if 0 in {axis % dims[1] for axis in axes}:
        return None
    rows, size = Shard(0, found.within), pointed_to(op, found)
    return Strategy((*_demands(found), WHOLE), (rows,), (size,))


@pointing("SparseSoftmax")
def softmax(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Normalises over the last axis, which is not that of rows."""
    found = _sparse(op, layouts, 2)
    return None if found is None else Strategy(_demands(found), (Shard(0, found.unit),))


@pointing("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv")
def with_dense(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Combines values with entries of a dense tensor that has the rows, or is whole."""
    found, dims, columns = _sparse(op, layouts, 2), op.dims(3), op.dims(0)
    if found is None or dims is None or columns is None:
        return None
    has_rows = len(dims) == columns[1] and dims[0] == pointed_to(op, found)
    if not has_rows and (len(dims) == columns[1] and dims[0] != 1):
        return None
    dense = Shard(0, found.within) if has_rows else WHOLE
    return Strategy((*_demands(found), dense), (Shard(0, found.unit),))


@pointing("SparseConcat")
def concat(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Concatenates within rows."""
    many, unit = len(layouts) // 3, counted(op)
    columns = op.dims(0)
    if unit is None or columns is None or not isinstance(columns[1], int):
        return None
    if op.attr("concat_dim") % columns[1] == 0 or op.value_of(op.outputs[2]) is None:
        return None
    parts = [_sparse(op, [*layouts[i : i + 1]], 2 * many + i, 0) for i in range(many)]
    known = [part for part in parts if part is not None]
    if len(known) < many or len({part[1:3] for part in known}) > 1:
        return None
    made = known[0]._replace(unit=unit, is_full=False)
    demands = [demand for of_kind in zip(*map(_demands, known)) for demand in of_kind]
    return Strategy(tuple(demands), (made, Shard(0, unit), SIZE))


_CROSSES = ("SparseCross", "SparseCrossV2", "SparseCrossHashed")


@pointing(*_CROSSES)
def cross(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Crosses the features of each row, sparse or dense."""
    many, unit = op.attr("N"), counted(op)
    end = 3 * many + len(op.attr("dense_types"))
    demands: list[Demand] = [WHOLE] * len(layouts)
    # By all inputs: the unit of their rows, and how many rows there are for each of it.
    kinds: set[tuple[str, Dim | None]] = set()
    for index in range(many):
        found = _sparse(op, layouts, 2 * many + index, index)
        if found is None:
            return None
        kinds.add((found.within, found.each))
        for place, demand in zip(range(index, 3 * many, many), _demands(found)):
            demands[place] = demand
    demands[3 * many : end] = [Shard(0)] * (end - 3 * many)
    for index in range(3 * many, end):
        is_split = layouts[index] in (Shard(0), WHOLE) and op.rank(index) == 2
        kinds.add((ROWS, op.per_row(index, 0) if is_split else None))
    if unit is None or op.value_of(op.outputs[2]) is None or len(kinds) != 1:
        return None
    ((within, each),) = kinds
    if each is None:
        return None
    made = Indices(unit, within=within, each=each, is_matrix=True)
    return Strategy(tuple(demands), (made, Shard(0, unit), SIZE))


@pointing("StringSplit", "StringSplitV2")
def split_strings(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits the string of each row into any number of strings."""
    unit = counted(op)
    each = None if op.rank(0) is None else op.per_row(0, 0)
    if layouts[0] != Shard(0) or layouts[1] != WHOLE or unit is None or each is None:
        return None
    return Strategy(
        (Shard(0), WHOLE), (Indices(unit, each=each, is_matrix=True), Shard(0, unit), SIZE)
    )
