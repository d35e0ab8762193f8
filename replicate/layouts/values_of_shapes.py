"""Integers that are read from shapes, and those that gradients derive from operands' shapes."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.values_table import LARGEST, Values, array, plain, values

Entries = Sequence[Optional[Dim]]


@values("Const")
def _constant(op: Op) -> Values:
    output = op.outputs[0]
    if not output.dtype.is_integer or (output.shape.num_elements() or 0) > LARGEST:
        return None
    return [plain(graph_lib.constant(output))]


@values("Shape", "ShapeN")
def _shape(op: Op) -> Values:
    shapes = [op.dims(index) for index in range(len(op.inputs))]
    return [None if shape is None else array(shape) for shape in shapes]


@values("VariableShape")
def _variable_shape(op: Op) -> Values:
    handle = op.inputs[0].op
    while handle.type in ("Enter", "Identity", "Switch"):  # Into a loop, or a branch.
        handle = handle.inputs[0].op
    if handle.type != "VarHandleOp":
        return None
    shape = tf.TensorShape(handle.get_attr("shape"))
    return None if shape.rank is None else [array(shape.as_list())]


@values("Size")
def _size(op: Op) -> Values:
    shape = op.dims(0)
    return None if shape is None else [array([dims_lib.product(shape)], ())]


@values("Rank")
def _rank(op: Op) -> Values:
    shape = op.dims(0)
    return None if shape is None else [plain(len(shape))]


@values("Range")
def _range(op: Op) -> Values:
    start, limit, delta = (op.ints(index) for index in range(3))
    if start is None or limit is None or delta is None or not delta[0]:
        return None
    made = range(start[0], limit[0], delta[0])
    return [plain(np.array(made, np.int64))] if len(made) <= LARGEST else None


@values("Fill")
def _fill(op: Op) -> Values:
    shape, value = op.ints(0), op.value(1)
    if shape is None or value is None:
        return None
    count = int(np.prod(shape, dtype=np.int64))
    return [array([value.item()] * count, shape)] if count <= LARGEST else None


@values("ZerosLike", "OnesLike")
def _like(op: Op) -> Values:
    value = op.value(0)
    return None if value is None else [plain(np.full(value.shape, int(op.type == "OnesLike")))]


@values("ConcatOffset")
def _concat_offset(op: Op) -> Values:
    """Returns where the parts of a concatenation begin."""
    axis = op.ints(0)
    if axis is None:
        return None
    made: list[np.ndarray[Any, Any] | None] = []
    offset: Dim | None = 0
    for index in range(1, len(op.inputs)):
        shape = op.value(index)
        rank = op.outputs[index - 1].shape.num_elements() if shape is None else len(shape)
        if rank is None:
            return None
        place = axis[0] % rank
        made.append(array([offset if i == place else 0 for i in range(rank)]))
        size = None if shape is None else shape[place]
        offset = None if offset is None or size is None else dims_lib.added(offset, size)
    return made


def broadcast_shapes(known: Sequence[Entries]) -> list[Dim | None]:
    """Returns the shape to which several are broadcast, aligned at the last axis."""
    made: list[Dim | None] = []
    for shape in known:
        made = [_broadcast(a, b) for a, b in _aligned(made, shape)]
    return made


def _broadcast(a: Dim | None, b: Dim | None) -> Dim | None:
    """Returns the size of an axis to which axes of two sizes are broadcast, None if not known."""
    if 1 in (a, b):
        return b if a == 1 else a
    if a == b or isinstance(a, int):
        return a  # The other size is unknown: it must be the same, or 1.
    return b if isinstance(b, int) else None


def _aligned(a: Entries, b: Entries) -> list[tuple[Dim | None, Dim | None]]:
    rank = max(len(a), len(b))
    return list(zip([1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b)))


@values("BroadcastArgs")
def _broadcast_args(op: Op) -> Values:
    a, b = op.value(0), op.value(1)
    if a is None or b is None:
        return None
    return [array(broadcast_shapes([list(a), list(b)]))]


@values("BroadcastGradientArgs")
def _broadcast_gradient_args(op: Op) -> Values:
    """Returns the axes over which gradients of broadcast operands are summed.

    If a symbol turns out to be 1, the kernel would also name its axis. That makes no difference: a
    sum over one entry changes nothing, and the gradient gets the operand's shape afterwards.
    """
    a, b = op.value(0), op.value(1)
    if a is None or b is None:
        return None
    if None not in [*a, *b] and list(a) == list(b):
        return [array([]), array([])]
    pairs = _aligned(list(a), list(b))
    return [_summed(pairs), _summed([(y, x) for x, y in pairs])]


def _summed(pairs: Sequence[tuple[Dim | None, Dim | None]]) -> np.ndarray[Any, Any] | None:
    """Returns the axes where the first size is 1, None if one may be 1 and the other is not."""
    for size, other in pairs:
        same = size is not None and size == other
        if size != 1 and other != 1 and not same and not _is_not_one(size):
            return None
    return array([axis for axis, (size, _) in enumerate(pairs) if size == 1])


def _is_not_one(size: Dim | None) -> bool:
    if isinstance(size, int):
        return size != 1
    # A multiple of 2 or more is not 1, though it may be 0.
    return size is not None and abs(size.coefficient) > 1
