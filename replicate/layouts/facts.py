"""Finds what is known about tensors before the graph runs: shapes, and integers they hold."""

from __future__ import annotations

from typing import Any, Collection, NamedTuple, Sequence

import numpy as np

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts import shapes, values
from replicate.layouts.dims import Dim
from replicate.layouts.layout import Blocks, Even, Unit, count
from replicate.layouts.rule import Op

# Limit of the depth of recursion. Shapes are computed by shorter chains of operations.
_DEEPEST = 100

# By type: the input that determines how many entries there are on axis 0 of each output.
_COUNT = {"Where": 0, "DynamicPartition": 1}


class Measure(NamedTuple):
    """Where a size is found when the graph runs: the size of an axis of a tensor.

    If `is_entry`, the tensor is itself a shape, and the size is its entry at `axis`. If `of_each`,
    it is the number of entries that each row, or each of another unit, has on the axis.
    """

    tensor: Any
    axis: int
    is_entry: bool = False
    of_each: bool = False


class Facts:
    """Shapes and integers of the tensors of a graph, found when they are asked for.

    Args:
        rows: n, the number of rows of the batch.
        varying: References of tensors, each with an axis whose size changes in each round of a
            loop.
        towers: N, None if it is not known.

    Attributes:
        rows: n.
        symbols: By the name of a symbol other than n: its `Measure`.
        ragged: Symbols that count a ragged unit of all rows together; see `Shard.unit`.
        sums: By symbol: the sizes whose sum it is. For example, row splits have one entry more than
            there are rows.
    """

    def __init__(
        self, rows: Dim, varying: Collection[tuple[Any, int]] = (), towers: int | None = None
    ) -> None:
        self.rows = rows
        self._varying = varying
        self._towers = towers
        self.symbols: dict[str, Measure] = {}
        self.ragged: set[str] = set()
        self.sums: dict[str, tuple[Dim, ...]] = {}
        self._dims: dict[Any, tuple[Dim, ...] | None] = {}
        self._values: dict[Any, np.ndarray[Any, Any] | None] = {}
        self._counted: dict[Any, Any] = {}  # By source of a count: the first tensor that has it.
        self._ops: dict[tuple[Any, Unit], Op] = {}
        self._depth = 0

    def copy(self) -> Facts:
        """Returns independent `Facts` with the same knowledge."""
        other = Facts(self.rows, self._varying, self._towers)
        other.reset(self)
        return other

    def reset(self, before: Facts) -> None:
        """Forgets what was recorded or found since `before`, an earlier copy."""
        self.symbols, self.ragged = dict(before.symbols), set(before.ragged)
        self.sums = dict(before.sums)
        self._dims, self._values = dict(before._dims), dict(before._values)
        self._counted = dict(before._counted)

    def op_of(self, operation: Any, unit: Unit = dims_lib.ROWS) -> Op:
        """Returns an operation as rules see it, with `unit` in place of rows."""
        key = operation, unit
        if key not in self._ops:  # Facts and rules ask for most operations several times.
            count = self.count(unit)
            self._ops[key] = Op(operation, self.dims, self.value, count, self.entry, self.rest)
        return self._ops[key]

    def count(self, unit: Unit) -> Dim:
        """Returns how many of a `Unit` there are in the batch."""
        return count(unit, self.rows)

    def may_be_none(self, unit: Unit) -> bool:
        """Whether a tower that has rows may have none of a `Unit`."""
        if isinstance(unit, Even):
            return not self.is_enough(unit.size)
        return unit != dims_lib.ROWS and not isinstance(unit, Blocks)

    def is_enough(self, size: Dim) -> bool:
        """Whether there are known to be as many entries as towers."""
        if self._towers is None or isinstance(size, dims_lib.Monomial):
            return False
        return size >= self._towers

    def each(self, tensor: Any, axis: int, unit: Unit) -> int | None:
        """Returns how many entries of an axis each of a `Unit` has, None if that is not known."""
        dims = self.dims(tensor)
        found = None if dims is None else dims_lib.over(dims[axis], self.count(unit))
        return found if isinstance(found, int) else None

    def dims(self, tensor: Any) -> tuple[Dim, ...] | None:
        """Returns the shape of a tensor, None if its rank is not known."""
        key = graph_lib.reference(tensor)
        if key not in self._dims:
            self._dims[key] = self._find_dims(tensor)
        return self._dims[key]

    def _find_dims(self, tensor: Any) -> tuple[Dim, ...] | None:
        static = None if tensor.shape.rank is None else tensor.shape.as_list()
        if static is not None and None not in static:
            return tuple(static)
        found: Sequence[Dim | None] | None = None
        if self._depth < _DEEPEST:
            self._depth += 1
            try:
                found = shapes.shape_of(self.op_of(tensor.op), tensor.value_index)
            finally:
                self._depth -= 1
        if tensor.dtype.is_integer and (found is None or None in found):
            value = self.value(tensor)
            found = found if value is None else value.shape
        # If a reduction's axes are computed, TensorFlow does not know the rank.
        if static is None:
            if found is None:
                return None
            static = [None] * len(found)
        elif found is None or len(found) != len(static):
            found = (None,) * len(static)
        key = graph_lib.reference(tensor)
        sizes = (given if given is not None else other for given, other in zip(static, found))
        # A size that a loop changes needs a symbol of its own, whatever it begins with.
        return tuple(
            self._new(tensor, axis) if size is None or (key, axis) in self._varying else size
            for axis, size in enumerate(sizes)
        )

    def _new(self, tensor: Any, axis: int, of_each: bool = False) -> Dim:
        """Returns a new symbol for the size of an axis, or for the entries of each row there."""
        in_loop = graph_lib.runs_in_rounds(tensor.op)
        if axis == 0 and tensor.op.type in _COUNT and not in_loop:
            # Two `tf.where` of one mask, for example, have the same number of entries.
            tensor = self._counted.setdefault(self._source_of_count(tensor), tensor)
        name = f"{tensor.name}[{axis}]" + " of each" * of_each
        if in_loop:
            name += dims_lib.IN_LOOP
        self.symbols[name] = Measure(tensor, axis, of_each=of_each)
        parts = None
        if not (in_loop or of_each):
            parts = shapes.summands_of(self.op_of(tensor.op), tensor.value_index, axis)
        if parts is not None:
            self.sums[name] = tuple(parts)
        return dims_lib.symbol(name)

    def _source_of_count(self, tensor: Any) -> Any:
        """Returns a key that is equal for two tensors which have the same number of entries."""
        operation = tensor.op
        given = operation.inputs[_COUNT[operation.type]]
        dims = self.dims(given)
        while given.op.type in ("Identity", "Reshape"):
            if given.op.inputs[0].dtype != given.dtype:
                break  # It reads a reference variable, which may have changed in between.
            given = given.op.inputs[0]
        return operation.type, tensor.value_index, graph_lib.reference(given), dims

    def entry(self, tensor: Any, index: int) -> Dim:
        """Returns a new symbol for an entry of a tensor that is a shape."""
        name = f"{tensor.name}@{index}"
        if graph_lib.runs_in_rounds(tensor.op):
            name += dims_lib.IN_LOOP
        self.symbols[name] = Measure(tensor, index, is_entry=True)
        return dims_lib.symbol(name)

    def have_rows(self, tensor: Any, axis: int, unit: Unit = dims_lib.ROWS) -> None:
        """Records that an axis of a tensor has a whole number of entries for each row.

        Args:
            tensor: The tensor.
            axis: The axis.
            unit: The `Unit` that it counts, in place of rows.
        """
        count = self.count(unit)
        if isinstance(unit, str) and unit != dims_lib.ROWS:
            self.ragged.add(unit)
        found = self.dims(tensor)
        # Else the size says it already.
        if found is not None and dims_lib.over(found[axis], count) is None:
            each = self._new(tensor, axis, of_each=True)
            self.have_size(tensor, axis, dims_lib.times(count, each))

    def have_size(self, tensor: Any, axis: int, size: Dim) -> None:
        """Records the size of an axis."""
        found = self.dims(tensor)
        if found is not None:
            made = (*found[:axis], size, *found[axis + 1 :])
            self._dims[graph_lib.reference(tensor)] = made

    def put_shape(self, tensor: Any, per_row: int) -> None:
        """Records that a tensor is a shape, with the rows of the batch on axis 0."""
        if self.value(tensor) is None:
            made = np.empty(tensor.shape.as_list()[0], object)
            made[0] = dims_lib.times(self.rows, per_row)
            for index in range(1, len(made)):
                made[index] = self.entry(tensor, index)
            self._values[graph_lib.reference(tensor)] = made

    def put_splits(self, tensor: Any, per_row: int) -> None:
        """Records that a tensor holds the row splits of a ragged tensor: one more than its rows."""
        size = self.dims(tensor)
        if size is not None and isinstance(size[0], dims_lib.Monomial):
            self.sums[size[0].symbols[0]] = (dims_lib.times(self.rows, per_row), 1)

    def put_ragged(self, tensor: Any, unit: str, measured: Any) -> None:
        """Records that axis 0 of a tensor of the batch counts a ragged unit.

        Args:
            tensor: The tensor, of known rank.
            unit: The name of the unit.
            measured: The tensor whose axis 0 gives its size when the graph runs.
        """
        self.ragged.add(unit)
        self.symbols[unit] = Measure(measured, 0)
        self._dims[graph_lib.reference(tensor)] = (
            dims_lib.symbol(unit),
            *(
                self._new(tensor, axis) if size is None else size
                for axis, size in enumerate(tensor.shape.as_list()[1:], 1)
            ),
        )

    def put(self, tensor: Any, axis: int, per_row: int | None) -> None:
        """Records that a tensor has the rows of the batch on an axis.

        Args:
            tensor: The tensor.
            axis: The axis.
            per_row: How many entries each row has there, None if that is not known.
        """
        if tensor.shape.rank is None:
            return
        made = [
            self._new(tensor, place) if size is None and place != axis else size
            for place, size in enumerate(tensor.shape.as_list())
        ]
        each = self._new(tensor, axis, of_each=True) if per_row is None else per_row
        made[axis] = dims_lib.times(self.rows, each)
        self._dims[graph_lib.reference(tensor)] = tuple(made)

    def value(self, tensor: Any) -> np.ndarray[Any, Any] | None:
        """Returns the integers that a tensor holds, as an array of `Dim`s, None if not known."""
        key = graph_lib.reference(tensor)
        if key in self._values:
            return self._values[key]
        if not tensor.dtype.is_integer or self._depth >= _DEEPEST:
            return None  # Not remembered: a call that is less deep may find it.
        self._depth += 1
        try:
            found = values.values_of(self.op_of(tensor.op))
        finally:
            self._depth -= 1
        value = None if found is None else found[tensor.value_index]
        if value is not None and value.size > values.LARGEST:
            value = None
        self._values[key] = value
        return value

    def rest(self, whole: Dim, gone: Dim) -> Dim | None:
        """Returns the difference of two sizes, None if it is not a size that can be represented.

        A summand can be subtracted from a sum, such as the rows of one part of a concatenation.
        """
        parts = list(self.sums.get(dims_lib.name_of(whole), ()))
        if gone not in parts:
            return dims_lib.added(whole, dims_lib.times(-1, gone))
        parts.remove(gone)
        return dims_lib.total(parts)

    def are_formulas(self, operation: Any) -> bool:
        """Whether all outputs of an operation are integers that follow from sizes.

        Sizes that change in each round of a loop do not count: no formula outside has them.
        """
        if not operation.outputs or not all(t.dtype.is_integer for t in operation.outputs):
            return False
        found = [self.value(tensor) for tensor in operation.outputs]
        return all(
            value is not None and not any(dims_lib.is_of_loop(entry) for entry in value.flat)
            for value in found
        )
