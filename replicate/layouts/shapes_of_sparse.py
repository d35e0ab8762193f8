"""Shapes of the components of sparse tensors, and the integers in their dense shapes."""

from __future__ import annotations

from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.shapes_of_arrays import resolved
from replicate.layouts.shapes_table import Shape, like, shapes, sizes
from replicate.layouts.values_table import Values, array, values

like("SparseReorder", source=None)
like("SparseSoftmax", "SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv", source=1)


def _as_long_as(op: Op, output: int) -> list[Dim | None]:
    """Returns the size of axis 0 of another output."""
    dims = op.dims_of(op.outputs[output])
    return [dims[0] if dims else None]


@shapes("SparseReshape")
def _reshape(op: Op, index: int) -> Shape | None:
    given = op.dims(0 if index == 0 else 2)
    if given is None or index:
        return given
    new = op.dims(2)
    return [given[0], new[0] if new else None]


@shapes("SparseFillEmptyRows")
def _fill_empty_rows(op: Op, index: int) -> Shape | None:
    if index == 2:
        shape = op.value(2)
        return None if shape is None else [shape[0]]
    if index == 3:
        return op.dims(1)
    if index == 1:
        return _as_long_as(op, 0)
    given = op.dims(0)
    return None if given is None else [None, given[1]]


@shapes("SparseFillEmptyRowsGrad")
def _fill_empty_rows_grad(op: Op, index: int) -> Shape | None:
    return [] if index else op.dims(0)


@shapes("SparseReduceSum", "SparseReduceMax")
def _reduced(op: Op, index: int) -> Shape | None:
    shape, axes = sizes(op, 2), op.ints(3)
    if shape is None or axes is None:
        return None
    gone = {axis % len(shape) for axis in axes}
    if op.attr("keep_dims"):
        return [1 if axis in gone else size for axis, size in enumerate(shape)]
    return [size for axis, size in enumerate(shape) if axis not in gone]


@shapes("SparseConcat", "SparseCross", "SparseCrossV2", "SparseCrossHashed")
@shapes("StringSplit", "StringSplitV2")
def _joined(op: Op, index: int) -> Shape | None:
    rank: Dim | None = 2
    if op.type == "SparseConcat":
        given = op.dims(0)
        rank = None if given is None else given[1]
    return _as_long_as(op, 0) if index == 1 else ([None, rank], None, [rank])[index]


@shapes("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def _unique(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    if given is None or len(given) != 1:
        return None
    return _as_long_as(op, 0) if index == 2 else ([None], given)[index]


@values("SparseReshape")
def _new_shape(op: Op) -> Values:
    """Resolves a size of -1."""
    given, new = op.value(1), op.value(2)
    if given is None or new is None:
        return None
    return [None, array(resolved(list(new), list(given)))]


@values("SparseConcat")
def _concatenated(op: Op) -> Values:
    many = len(op.inputs) // 3
    parts = [op.value(2 * many + index) for index in range(many)]
    if any(part is None for part in parts) or parts[0] is None:
        return None
    axis = op.attr("concat_dim") % len(parts[0])
    made: list[Dim] = list(parts[0])
    sizes = [part[axis] for part in parts if part is not None]
    total = dims_lib.total(sizes)
    made[axis] = op.entry_of(op.outputs[2], axis) if total is None else total
    return [None, None, array(made)]


@values("SparseCross", "SparseCrossV2", "SparseCrossHashed")
def _crossed(op: Op) -> Values:
    """Returns the dense shape of crosses: n rows, as long as the longest."""
    many = op.attr("N")
    if many:
        shape = op.value(2 * many)
        rows = None if shape is None else shape[0]
    else:
        dims = op.dims(0)
        rows = dims[0] if dims else None
    return None if rows is None else [None, None, array([rows, op.entry_of(op.outputs[2], 1)])]


@values("StringSplit", "StringSplitV2")
def _split(op: Op) -> Values:
    dims = op.dims(0)
    return [None, None, array([dims[0], op.entry_of(op.outputs[2], 1)])] if dims else None
