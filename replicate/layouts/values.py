"""Integers of a graph that are known before it runs: shapes, axes, and what is computed of them.

Each function is told of an operation and returns its outputs as arrays of `Dim`s (object arrays,
since a `Dim` may hold symbols), or None. It only says what holds for all values of the symbols.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import Dim, Monomial
from replicate.layouts.rule import Op

Values = Optional[List[Optional[np.ndarray]]]

# Of the entries of a tensor whose integers are followed: shapes and axes are far smaller.
LARGEST = 1024

_functions: Dict[str, Callable[[Op], Values]] = {}


def values_of(op: Op) -> Values:
    """Returns the integers of each output of an operation, None of those that are not known."""
    function = _functions.get(op.type)
    if function is None:
        return None
    made = function(op)
    if made is None or len(made) != len(op.outputs):
        return None
    return made


def array(entries: Sequence[Dim], shape: Optional[Sequence[int]] = None) -> np.ndarray:
    """Returns `Dim`s as an array of `shape`, by default a vector."""
    made = np.empty(len(entries), object)
    for index, entry in enumerate(entries):
        made[index] = entry
    return made if shape is None else made.reshape(shape)


def _of(*types: str) -> Callable[[Callable[[Op], Values]], Callable[[Op], Values]]:
    def enter(function: Callable[[Op], Values]) -> Callable[[Op], Values]:
        _functions.update(dict.fromkeys(types, function))
        return function

    return enter


def _numbers(value: Optional[np.ndarray]) -> Optional[np.ndarray]:
    """Returns an array of integers; None if it holds symbols, or nothing is known."""
    if value is None or any(isinstance(entry, Monomial) for entry in value.flat):
        return None
    return value.astype(np.int64)


def _plain(value: Any) -> List[np.ndarray]:
    value = np.asarray(value)
    return [array([int(entry) for entry in value.flat], value.shape)]


@_of("Const")
def _const(op: Op) -> Values:
    output = op.outputs[0]
    if not output.dtype.is_integer or (output.shape.num_elements() or 0) > LARGEST:
        return None
    return _plain(tf.make_ndarray(op.attr("value")))


@_of("Shape", "ShapeN")
def _shape(op: Op) -> Values:
    shapes = [op.dims(index) for index in range(len(op.inputs))]
    return [None if shape is None else array(shape) for shape in shapes]


@_of("Size")
def _size(op: Op) -> Values:
    shape = op.dims(0)
    return None if shape is None else [array([dims_lib.product(shape)], ())]


@_of("Rank")
def _rank(op: Op) -> Values:
    shape = op.dims(0)
    return None if shape is None else _plain(len(shape))


@_of("Identity", "StopGradient", "PreventGradient", "Snapshot")
def _same(op: Op) -> Values:
    return [op.value(0)]


@_of("Cast")
def _cast(op: Op) -> Values:
    integer = op.inputs[0].dtype.is_integer and op.outputs[0].dtype.is_integer
    return [op.value(0)] if integer and op.outputs[0].dtype.size >= 4 else None


@_of("ExpandDims")
def _expand_dims(op: Op) -> Values:
    value, axis = op.value(0), op.ints(1)
    if value is None or axis is None:
        return None
    return [np.expand_dims(value, axis[0])]


@_of("Squeeze")
def _squeeze(op: Op) -> Values:
    value, axes = op.value(0), op.attr("squeeze_dims")
    return None if value is None else [np.squeeze(value, tuple(axes) or None)]


@_of("Reshape")
def _reshape(op: Op) -> Values:
    value, shape = op.value(0), op.ints(1)
    return None if value is None or shape is None else [value.reshape(shape)]


@_of("Pack")
def _pack(op: Op) -> Values:
    parts = [op.value(index) for index in range(len(op.inputs))]
    if any(part is None for part in parts):
        return None
    return [np.stack(parts, op.attr("axis"))]  # type: ignore[arg-type]


@_of("Unpack")
def _unpack(op: Op) -> Values:
    value = op.value(0)
    if value is None:
        return None
    axis = op.attr("axis")
    return [_as_array(part) for part in np.moveaxis(value, axis, 0)]


def _as_array(entry: Any) -> np.ndarray:
    return entry if isinstance(entry, np.ndarray) else array([entry], ())


@_of("ConcatV2")
def _concat(op: Op) -> Values:
    parts = [op.value(index) for index in range(len(op.inputs) - 1)]
    axis = op.ints(len(op.inputs) - 1)
    if axis is None or any(part is None for part in parts):
        return None
    return [np.concatenate(parts, axis[0])]  # type: ignore[arg-type]


@_of("ConcatOffset")
def _concat_offset(op: Op) -> Values:
    axis = op.ints(0)
    if axis is None:
        return None
    made: List[Optional[np.ndarray]] = []
    offset: Optional[Dim] = 0
    for index in range(1, len(op.inputs)):
        shape = op.value(index)
        if shape is None:
            return None
        known = offset
        made.append(
            None
            if known is None
            else array([known if i == axis[0] % len(shape) else 0 for i in range(len(shape))])
        )
        offset = None if offset is None else dims_lib.added(offset, shape[axis[0]])
    return made


@_of("StridedSlice")
def _strided_slice(op: Op) -> Values:
    value, masks = op.value(0), {}
    for name in ("begin", "end", "shrink_axis", "new_axis", "ellipsis"):
        masks[name] = op.attr(f"{name}_mask")
    begin, end, strides = (op.ints(index) for index in (1, 2, 3))
    if value is None or strides is None or (begin is None and end is None):
        return None
    key: List[Any] = []
    for i in range(len(strides)):
        bit = 1 << i
        if masks["ellipsis"] & bit:
            key.append(Ellipsis)
        elif masks["new_axis"] & bit:
            key.append(None)
        elif masks["shrink_axis"] & bit:
            if begin is None:
                return None
            key.append(begin[i])
        else:
            if not masks["begin"] & bit and begin is None:
                return None
            if not masks["end"] & bit and end is None:
                return None
            low = None if masks["begin"] & bit else begin[i]  # type: ignore[index]
            high = None if masks["end"] & bit else end[i]  # type: ignore[index]
            key.append(slice(low, high, strides[i]))
    return [_as_array(value[tuple(key)])]


@_of("Slice")
def _slice(op: Op) -> Values:
    value, begin, size = op.value(0), op.ints(1), op.ints(2)
    if value is None or begin is None or size is None:
        return None
    key = [slice(b, None if s < 0 else b + s) for b, s in zip(begin, size)]
    return [value[tuple(key)]]


@_of("GatherV2", "Gather")
def _gather(op: Op) -> Values:
    axis = op.ints(2) if op.type == "GatherV2" else (0,)
    value, indices = op.value(0), _numbers(op.value(1))
    if value is None or indices is None or axis is None or op.attr("batch_dims", 0):
        return None
    return [_as_array(np.take(value, indices, axis[0]))]


def _reduce(op: Op, fold: Callable[[Sequence[Dim]], Optional[Dim]]) -> Values:
    value, axes = op.value(0), op.ints(1)
    if value is None or axes is None:
        return None
    if value.ndim == 0:
        return [value]
    if value.ndim > 1 or [axis % 1 for axis in axes] != [0]:
        return None
    made = fold(list(value))
    return None if made is None else [array([made], (1,) if op.attr("keep_dims") else ())]


@_of("Prod")
def _prod(op: Op) -> Values:
    return _reduce(op, dims_lib.product)


@_of("Sum")
def _sum(op: Op) -> Values:
    def fold(entries: Sequence[Dim]) -> Optional[Dim]:
        total: Optional[Dim] = 0
        for entry in entries:
            total = None if total is None else dims_lib.added(total, entry)
        return total

    return _reduce(op, fold)


@_of("Max", "Min")
def _extreme(op: Op) -> Values:
    def fold(entries: Sequence[Dim]) -> Optional[Dim]:
        if any(isinstance(entry, Monomial) for entry in entries) or not entries:
            return None
        return (max if op.type == "Max" else min)(int(entry) for entry in entries)  # type: ignore

    return _reduce(op, fold)


def _multiply(a: Dim, b: Dim) -> Optional[Dim]:
    return dims_lib.times(a, b)


def _subtract(a: Dim, b: Dim) -> Optional[Dim]:
    return dims_lib.added(a, dims_lib.times(-1, b))


def _divide(a: Dim, b: Dim) -> Optional[Dim]:
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else None
    return dims_lib.over(a, b)


def _truncate(a: Dim, b: Dim) -> Optional[Dim]:
    if isinstance(a, int) and isinstance(b, int):
        return int(a / b) if b else None
    return dims_lib.over(a, b)


def _modulo(a: Dim, b: Dim) -> Optional[Dim]:
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else None
    return 0 if dims_lib.over(a, b) is not None else None


def _maximum(a: Dim, b: Dim) -> Optional[Dim]:
    if a == b:
        return a
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else None


def _minimum(a: Dim, b: Dim) -> Optional[Dim]:
    if a == b:
        return a
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else None


_BINARY: Dict[str, Callable[[Dim, Dim], Optional[Dim]]] = {
    "Mul": _multiply,
    "Add": dims_lib.added,
    "AddV2": dims_lib.added,
    "Sub": _subtract,
    "FloorDiv": _divide,
    "TruncateDiv": _truncate,
    "FloorMod": _modulo,
    "Mod": _modulo,
    "Maximum": _maximum,
    "Minimum": _minimum,
}


@_of(*_BINARY)
def _binary(op: Op) -> Values:
    a, b = op.value(0), op.value(1)
    if b is None and op.type in ("FloorDiv", "TruncateDiv"):
        b = _at_least_one(op.inputs[1], op)
    if a is None or b is None:
        return None
    a, b = np.broadcast_arrays(a, b)
    made = [_BINARY[op.type](x, y) for x, y in zip(a.flat, b.flat)]
    return None if any(entry is None for entry in made) else [array(made, a.shape)]  # type: ignore


def _at_least_one(tensor: Any, op: Op) -> Optional[np.ndarray]:
    """Returns x of a divisor max(x, 1), as gradients of sums divide sizes in TensorFlow 1.

    Where x is 0, so is what it divides.
    """
    if tensor.op.type != "Maximum":
        return None
    of = Op(tensor.op, op._dims, op._value, op.rows)
    for x, other in ((0, 1), (1, 0)):
        if of.ints(other) is not None and set(of.ints(other) or ()) == {1}:
            return of.value(x)
    return None


@_of("Neg")
def _negative(op: Op) -> Values:
    value = op.value(0)
    if value is None:
        return None
    return [array([dims_lib.times(-1, entry) for entry in value.flat], value.shape)]


@_of("AddN")
def _add_n(op: Op) -> Values:
    parts = [op.value(index) for index in range(len(op.inputs))]
    total = parts[0]
    for part in parts[1:]:
        if total is None or part is None:
            return None
        made = [dims_lib.added(x, y) for x, y in zip(total.flat, part.flat)]
        if any(entry is None for entry in made):
            return None
        total = array(made, total.shape)  # type: ignore[arg-type]
    return [total]


@_of("Range")
def _range(op: Op) -> Values:
    start, limit, delta = (op.ints(index) for index in range(3))
    if start is None or limit is None or delta is None or not delta[0]:
        return None
    made = range(start[0], limit[0], delta[0])
    return _plain(list(made)) if len(made) <= LARGEST else None


@_of("Fill")
def _fill(op: Op) -> Values:
    shape, value = op.ints(0), op.value(1)
    if shape is None or value is None or np.prod(shape, initial=1) > LARGEST:
        return None
    return [array([value.item()] * int(np.prod(shape, initial=1)), shape)]


@_of("ZerosLike", "OnesLike")
def _like(op: Op) -> Values:
    value = op.value(0)
    return None if value is None else _plain(np.full(value.shape, int(op.type == "OnesLike")))


@_of("Tile")
def _tile(op: Op) -> Values:
    value, times = op.value(0), op.ints(1)
    if value is None or times is None or value.size * np.prod(times, initial=1) > LARGEST:
        return None
    return [np.tile(value, times)]


@_of("Transpose")
def _transpose(op: Op) -> Values:
    value, order = op.value(0), op.ints(1)
    return None if value is None or order is None else [np.transpose(value, order)]


@_of("ReverseV2")
def _reverse(op: Op) -> Values:
    value, axes = op.value(0), op.ints(1)
    return None if value is None or axes is None else [np.flip(value, axes)]


@_of("InvertPermutation")
def _invert(op: Op) -> Values:
    order = op.ints(0)
    return None if order is None else _plain(np.argsort(order))


@_of("ListDiff")
def _list_diff(op: Op) -> Values:
    given, without = op.ints(0), op.ints(1)
    if given is None or without is None:
        return None
    kept = [(entry, index) for index, entry in enumerate(given) if entry not in without]
    return [array([entry for entry, _ in kept]), array([index for _, index in kept])]


@_of("DynamicStitch")
def _stitch(op: Op) -> Values:
    made: Dict[int, Dim] = {}
    half = len(op.inputs) // 2
    for index in range(half):
        places, entries = op.value(index), op.value(half + index)
        numbers = _numbers(places)
        if numbers is None or entries is None or entries.shape != numbers.shape:
            return None
        made.update(zip(numbers.ravel().tolist(), entries.ravel()))
    if sorted(made) != list(range(len(made))):
        return None
    return [array([made[place] for place in sorted(made)])]


def broadcast(a: Dim, b: Dim) -> Optional[Dim]:
    """Returns the size of an axis to which axes of two sizes are broadcast, None if not known."""
    if a == b:
        return a
    if 1 in (a, b):
        return b if a == 1 else a
    return None


@_of("BroadcastArgs")
def _broadcast_args(op: Op) -> Values:
    a, b = op.value(0), op.value(1)
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    pairs = zip([1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b))
    made = [broadcast(x, y) for x, y in pairs]
    return None if any(entry is None for entry in made) else [array(made)]  # type: ignore[arg-type]


@_of("BroadcastGradientArgs")
def _broadcast_gradient_args(op: Op) -> Values:
    """Axes over which gradients of broadcast operands are summed.

    An axis of one entry is summed over where the other operand has more, or has one as well.
    """
    a, b = op.value(0), op.value(1)
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    padded = [[1] * (rank - len(x)) + list(x) for x in (a, b)]
    # Where an operand's axis is as long as the other's, nothing is summed over it, unless both
    # have one entry, and then the sum changes nothing.
    if any(broadcast(x, y) is None for x, y in zip(*padded)):
        return None
    axes = [[i for i in range(rank) if own[i] == 1] for own in padded]
    return [array(own) for own in axes]
