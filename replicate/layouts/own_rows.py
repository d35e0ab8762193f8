"""Proves that indices point at entries of their own row, such as `tf.range(n) * k + place`.

Before `tf.gather` had `batch_dims`, models picked entries of each row like this, and gradients of
`tf.gather` and `tf.nn.top_k` still do. Such an index needs no other tower's rows. The proof follows
the graph back to ranges, constants, and results within known bounds. It speaks of values and their
places alone, so it also holds if n is known, and an axis has as many entries by chance.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import Dim, Monomial
from replicate.layouts.layout import WHOLE, Layout, Own, Shard
from replicate.layouts.row_numbers import (
    UNKNOWN,
    Entries,
    casts_indices,
    follow,
    have_rows,
    is_at_most,
    uniform,
)
from replicate.layouts.rule import Op

_DEEPEST = 24  # Limit of the depth of recursion.
_LARGEST = 2**16  # Limit of the size of constants that are read.


def demand(
    op: Op,
    layouts: Sequence[Layout],
    index: int,
    rows: Sequence[int],
    size: Dim | None,
    is_matrix: bool = False,
) -> Own | None:
    """Returns the demand for indices that point at their own row, None if that is not known.

    Args:
        op: The operation that takes them.
        layouts: Those of its inputs.
        index: The place of the indices among its inputs.
        rows: The places of inputs with rows on axis 0. One may be whole if another is a shard.
        size: That of the axis that is indexed, None if it is not known.
        is_matrix: Whether they are coordinates, of which the first one indexes that axis.
    """
    each, tensor = None if size is None else dims_lib.over(size, op.rows), op.inputs[index]
    given = {layouts[one] for one in rows}
    are_rows = Shard(0) in given and {*given, layouts[index]} <= {Shard(0), WHOLE}
    # In a loop, no input is converted.
    if each is None or not are_rows or graph_lib.in_while_loop(op.operation):
        return None
    if not have_rows(op, tensor):
        return None
    proof = _Proof(op)
    found = proof.of_first_column(tensor) if is_matrix else proof.of(tensor)
    grows = found.by == each or op.rows == 1
    is_within = found.is_natural and is_at_most(found.below, each)
    return Own(each=each, is_matrix=is_matrix) if grows and is_within else None


def size_of_rows(op: Op, index: int) -> Dim | None:
    """Returns the size of axis 0 of an input, None if it is not known."""
    return (op.dims(index) or (None,))[0]


def size_in_shape(op: Op, index: int) -> Dim | None:
    """Returns the size of axis 0 by an input that is a shape, or that size; None if not known."""
    value = op.value(index)
    found: Dim | None = None if value is None or not value.size else value.flat[0]
    return found


class _Proof:
    """Finds how the integers that lead to an input are made, each once."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self._found: dict[Any, Entries] = {}
        self._depth = 0

    def of(self, tensor: Any) -> Entries:
        """Returns how numbers are made."""
        key = graph_lib.reference(tensor)
        if key not in self._found:
            found = self._of_value(tensor)
            if found.number is None and self._depth < _DEEPEST:
                self._depth += 1
                followed = follow(self._op.beside(tensor.op), tensor, self.of)
                self._depth -= 1
                found = found if followed == UNKNOWN else followed
            self._found[key] = found
        return self._found[key]

    def of_first_column(self, tensor: Any) -> Entries:
        """Returns how the first of coordinates are made; the last axis counts coordinates."""
        dims, op = self._op.dims_of(tensor), self._op.beside(tensor.op)
        if not dims or not have_rows(op, tensor):
            return UNKNOWN
        last, axis = len(dims) - 1, op.attr("axis")
        if dims[-1] == 1:
            return self.of(tensor)
        given = op.dims(0) if op.inputs else None
        if not given:
            return UNKNOWN
        if op.type == "ConcatV2":
            axis = (op.ints(len(op.inputs) - 1) or (None,))[0]
        is_column = op.type == "Pack" or (op.type == "ConcatV2" and given[-1] == 1)
        if is_column and axis in (-1, last):
            return self.of(op.inputs[0])
        is_kept = op.type in ("Identity", "Reshape") or (op.type == "Cast" and casts_indices(op))
        is_same = is_kept and given[-1] == dims[-1]
        return self.of_first_column(op.inputs[0]) if is_same else UNKNOWN

    def _of_value(self, tensor: Any) -> Entries:
        """Returns how numbers are made if their values are known before the graph runs."""
        value, rows = self._op.value_of(tensor), self._op.rows
        if tensor.op.type == "Const" and (tensor.shape.num_elements() or 0) <= _LARGEST:
            value = graph_lib.constant(tensor)
        if value is None or not value.size or value.dtype.kind not in "iufO":
            return UNKNOWN
        flat = value.ravel().tolist()
        if all(entry == flat[0] for entry in flat):
            return UNKNOWN if isinstance(flat[0], float) and flat[0] % 1 else uniform(_dim(flat[0]))
        if not all(isinstance(entry, int) for entry in flat):
            return UNKNOWN
        entries, by = value.astype(np.int64), 0
        if isinstance(rows, int) and rows > 1 and value.shape[0] % rows == 0:
            entries = entries.reshape(rows, -1)
            by = max(int(entries[1, 0] - entries[0, 0]), 0)
            entries = entries - by * np.arange(rows)[:, np.newaxis]
        return Entries(by, int(entries.max()) + 1, is_natural=bool(entries.min() >= 0))


def _dim(number: Any) -> Dim:
    return number if isinstance(number, Monomial) else int(number)
