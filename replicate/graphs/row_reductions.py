"""How values are reduced over rows: as means, as sums, as largest values, or not at all."""

import tensorflow.compat.v1 as tf

from replicate.compat.graph import id_of
from replicate.graphs import row_axes, row_mixing, row_shapes
from replicate.graphs.reduction_kinds import (
    LARGEST,
    MEAN,
    OF_ALL_ROWS,
    REDUCED,
    ROWS,
    SMALLEST,
    SUM,
    WHOLE,
    RowsOn,
    axis_of,
    rows_on,
)
from replicate.graphs.static_values import static_value


class Reductions:
    """How values are reduced over rows, in one model.

    Args:
        group: The `Towers`.
        loosely: Whether what is computed place by place of rows and of something else, of which
            nothing is known, has a value for each row.
    """

    def __init__(self, group, loosely=False):
        self._group = group
        self._loosely = loosely
        self._known = {}
        self._means = set()  # ids of operations that divide by a number of rows, a constant
        self.unclear = set()
        """Those among them that may divide by another number as well."""
        self.mixed = set()
        """ids of operations that take rows and what these have in common, such as their mean."""

    def of(self, tensor):
        """Returns how a tensor adds up over towers, None if that is not known."""
        # What leads to it comes first, so that deep graphs do not make for deep calls.
        pending = [(tensor, False)]
        while pending:
            given, is_next = pending.pop()
            key = id_of(given.op), given.value_index
            if is_next:
                self._known[key] = self._find(given)
            elif key not in self._known:
                self._known[key] = None  # What leads back to itself is in a loop.
                pending.append((given, True))
                if self._group.copies.rows.reach(given) and not self._begins(given):
                    pending += [(before, False) for before in given.op.inputs]
        return self._known[id_of(tensor.op), tensor.value_index]

    def is_mean(self, op):
        """Whether an operation makes a mean of a sum, by a number of rows that is a constant."""
        return self.of(op.outputs[0]) == MEAN and id_of(op) in self._means

    def _begins(self, tensor):
        return self._group.copies.is_boundary(tensor)

    def _find(self, tensor):
        rows = self._group.copies.rows
        if not rows.reach(tensor):
            return WHOLE
        op = tensor.op
        if self._begins(tensor):
            axis = self._group.boundary.axes.get(id_of(op), 0)
            return rows_on(axis if axis >= 0 else None) if tensor.shape.rank != 0 else None
        kinds = [self.of(given) for given in op.inputs]
        if row_mixing.mixes(op, kinds):
            self.mixed.add(id_of(op))
        if op.type in ("Mean", "Sum", "Prod", "Max", "Min", "All", "Any"):
            return self._reduced(op, kinds[0])
        if op.type in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
            if kinds[0] != ROWS or not op.get_attr("is_training"):
                return ROWS if kinds[0] == ROWS and tensor.value_index == 0 else None
            return ROWS if tensor.value_index == 0 else MEAN
        if op.type in ("Size", "Shape"):
            return SUM if op.type == "Size" and axis_of(kinds[0]) is not None else None
        if op.type == "StridedSlice" and op.inputs[0].op.type == "Shape":
            return self._count(op)
        if op.type == "L2Loss":
            return SUM if axis_of(kinds[0]) is not None else None
        if op.type in ("Fill", "BroadcastTo", *row_shapes.DRAWS):
            dims = op.inputs[1 if op.type == "BroadcastTo" else 0].op
            kind = self.of(dims.inputs[0]) if dims.type == "Shape" else None
            if op.type in row_shapes.DRAWS:
                return rows_on(axis_of(kind))
            return rows_on(axis_of(kind)) if kinds[op.type == "Fill"] == WHOLE else None
        if None not in kinds and self._has_rows_elsewhere(op, kinds):
            return self._moved(op, tensor, kinds)
        if self._loosely and ROWS in kinds and row_shapes.is_place_by_place(op, kinds, WHOLE):
            return ROWS
        if op.type in row_shapes.MOVES and kinds[1 if op.type == "Split" else 0] == ROWS:
            return ROWS if row_shapes.leaves_rows(op) else None
        if op.type == "Reshape" and kinds[0] == ROWS and self._begins_with_rows(op.inputs[1].op):
            return ROWS
        if None in kinds:
            return None
        if op.type in row_shapes.ELEMENTWISE:
            return self._elementwise(op, kinds)
        if op.type in row_shapes.CROSS_ENTROPIES:
            return ROWS if ROWS in kinds and tensor.value_index == 0 else None
        if op.type in ("ConcatV2", "Pack") and set(kinds) <= {ROWS, WHOLE} and ROWS in kinds:
            return ROWS if row_shapes.joins_other_axes(op) else None
        if op.type in row_shapes.MATRICES and kinds == [ROWS, ROWS]:
            return ROWS if (op.inputs[0].shape.rank or 0) > 2 else None
        if op.type in row_shapes.BY_ROWS and kinds[0] == ROWS and set(kinds[1:]) <= {WHOLE}:
            if op.type == "MatMul" and op.get_attr("transpose_a"):
                return None
            return ROWS
        if op.type == "MatMul" and kinds == [ROWS, ROWS]:
            by_rows = op.get_attr("transpose_a") and not op.get_attr("transpose_b")
            return SUM if by_rows else None
        if op.type in ("GatherV2", "ResourceGather", "Gather") and kinds[1] == ROWS:
            return ROWS if kinds[0] == WHOLE else None
        if op.type in row_shapes.SHAPES and kinds[0] in OF_ALL_ROWS and set(kinds[1:]) <= {WHOLE}:
            return kinds[0]
        if op.type in ("ExpandDims", "Squeeze", "Reshape") and kinds[0] == ROWS:
            return ROWS if row_shapes.keeps_rows(op) else None
        return None

    def _begins_with_rows(self, dims):
        """Whether a shape is that of rows first, and then of numbers."""
        if dims.type != "Pack" or self.of(dims.inputs[0]) != SUM:
            return False
        return all(tf.get_static_value(size) is not None for size in dims.inputs[1:])

    @staticmethod
    def _has_rows_elsewhere(op, kinds):
        """Whether what an operation takes or gives has its rows on another axis than 0."""
        moves = op.type == "Transpose" and kinds[0] == ROWS
        return moves or any(isinstance(kind, RowsOn) for kind in kinds)

    @staticmethod
    def _moved(op, tensor, kinds):
        axes = list(map(axis_of, kinds))
        others = {kind for kind, axis in zip(kinds, axes) if axis is None}
        if others - {WHOLE} and op.type not in row_shapes.ELEMENTWISE:
            return None
        return rows_on(row_axes.after(op, tensor, axes))

    def _reduced(self, op, kind):
        if kind in (MEAN, SUM) and op.type in ("Mean", "Sum"):
            return kind
        if kind == MEAN:
            return MEAN
        if kind in OF_ALL_ROWS:
            return REDUCED
        axis = axis_of(kind)
        if axis is None:
            return None
        if tf.get_static_value(op.inputs[1]) is None or op.inputs[0].shape.rank is None:
            # All axes, of what has an unknown number of them.
            return None if op.outputs[0].shape.rank != 0 else self._over_rows(op)
        axis = row_axes.reduced(op, axis)
        return self._over_rows(op) if axis is None else rows_on(axis)

    @staticmethod
    def _over_rows(op):
        return {"Mean": MEAN, "Sum": SUM, "Max": LARGEST, "Min": SMALLEST}.get(op.type)

    def _count(self, op):
        """Returns SUM for the number of rows, `tf.shape(x)[0]`."""
        begin, end = (tf.get_static_value(op.inputs[i]) for i in (1, 2))
        axis = axis_of(self.of(op.inputs[0].op.inputs[0]))
        is_one = begin is not None and end is not None and op.get_attr("shrink_axis_mask")
        if axis is None or not is_one:
            return None
        return SUM if [begin.tolist(), end.tolist()] == [[axis], [axis + 1]] else None

    def _elementwise(self, op, kinds):
        found = set(kinds)
        if ROWS in found:
            return ROWS
        if found <= {WHOLE, MEAN}:
            return MEAN
        adds = op.type in ("Add", "AddV2", "AddN", "Sub") and found == {SUM}
        if adds or op.type in row_shapes.LINEAR:
            return SUM
        divides = op.type in ("RealDiv", "DivNoNan", "Div")
        if divides and kinds == [SUM, SUM]:
            return MEAN
        scales = kinds[1:] != [SUM] if divides else op.type == "Mul" and kinds.count(SUM) == 1
        if scales and SUM in found and found <= {WHOLE, MEAN, SUM}:
            return self._scaled(op, kinds, divides)
        return REDUCED

    def _scaled(self, op, kinds, divides):
        """Returns what a sum times a factor is, which is a mean if it is divided by its rows."""
        rows = self._group.boundary.rows
        if rows is None or WHOLE not in kinds:
            return SUM
        # Where shards are equal, how many rows there are is a number, like any other.
        factor = static_value(op.inputs[kinds.index(WHOLE)])
        if factor is None or factor.size != 1 or not factor.item():
            return None
        if self._loosely and not divides:
            return SUM  # Weights of losses are numbers of all kinds.
        count = float(factor.item()) if divides else 1 / float(factor.item())
        summed = row_shapes.number_summed(op.inputs[kinds.index(SUM)])
        if self._loosely and count not in (rows, summed):
            if count in (rows * self._group.size, (summed or 0) * self._group.size):
                return SUM  # Divided by the number of the whole batch.
            self.unclear.add(id_of(op))
        is_count = abs(count) >= rows and abs(count / rows - round(count / rows)) < 1e-5
        if is_count:
            self._means.add(id_of(op))
            # Of one row, any number is a multiple: no update is taken for a mean by that alone.
            return MEAN if rows > 1 or self._loosely else None
        return SUM
