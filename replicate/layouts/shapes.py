"""Shapes of outputs, of those axes whose size the graph does not know, from shapes of inputs.

Each function returns the shapes of all outputs, with None for sizes that it does not know. Whatever
is not here has a symbol of its own for each such size.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Sequence, Tuple

from replicate.layouts import dims as dims_lib
from replicate.layouts import values
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op

Shape = Sequence[Optional[Dim]]
Shapes = Optional[List[Optional[Shape]]]

_functions: Dict[str, Callable[[Op], Optional[Shape]]] = {}


def shape_of(op: Op, index: int) -> Optional[Tuple[Optional[Dim], ...]]:
    """Returns the shape of output `index`, with None for sizes that are not known."""
    function = _functions.get(op.type, _elementwise if op.type in _ELEMENTWISE else None)
    found = None if function is None else function(op)
    return None if found is None else tuple(found)


def _of(*types: str) -> Callable[[Callable[[Op], Optional[Shape]]], Callable[[Op], Optional[Shape]]]:
    def enter(function: Callable[[Op], Optional[Shape]]) -> Callable[[Op], Optional[Shape]]:
        _functions.update(dict.fromkeys(types, function))
        return function

    return enter


_ELEMENTWISE: set = set()


def elementwise(*types: str) -> None:
    """Says that operations broadcast their inputs to the shape of their output."""
    _ELEMENTWISE.update(types)


def _elementwise(op: Op) -> Optional[Shape]:
    shapes = [op.dims(index) for index in range(len(op.inputs))]
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        return None
    rank = max(len(shape) for shape in known)
    made: List[Optional[Dim]] = [1] * rank
    for shape in known:
        for axis, size in enumerate(shape, rank - len(shape)):
            own = made[axis]
            made[axis] = None if own is None else values.broadcast(own, size)
    return made


def resolved(shape: Sequence[Dim], given: Sequence[Dim]) -> Optional[Tuple[Dim, ...]]:
    """Returns the shape that `Reshape` gives to what has the shape `given`; -1 is resolved."""
    if not any(isinstance(size, int) and size == -1 for size in shape):
        return tuple(shape)
    others = [size for size in shape if not (isinstance(size, int) and size == -1)]
    rest = dims_lib.over(dims_lib.product(given), dims_lib.product(others))
    if rest is None:
        return None
    return tuple(rest if isinstance(size, int) and size == -1 else size for size in shape)


@_of("Reshape")
def _reshape(op: Op) -> Optional[Shape]:
    given, shape = op.dims(0), op.value(1)
    if shape is None:
        return None
    if given is None:
        return [None if isinstance(size, int) and size == -1 else size for size in shape]
    found = resolved(list(shape), given)
    if found is None:
        return [None if isinstance(size, int) and size == -1 else size for size in shape]
    return found


@_of("Transpose")
def _transpose(op: Op) -> Optional[Shape]:
    given, order = op.dims(0), op.ints(1)
    return None if given is None or order is None else [given[axis] for axis in order]


@_of("ExpandDims")
def _expand_dims(op: Op) -> Optional[Shape]:
    given, axis = op.dims(0), op.ints(1)
    if given is None or axis is None:
        return None
    place = axis[0] % (len(given) + 1)
    return [*given[:place], 1, *given[place:]]


@_of("Squeeze")
def _squeeze(op: Op) -> Optional[Shape]:
    given, axes = op.dims(0), op.attr("squeeze_dims")
    if given is None or not axes:
        return None
    left_out = {axis % len(given) for axis in axes}
    return [size for axis, size in enumerate(given) if axis not in left_out]


@_of("Sum", "Mean", "Max", "Min", "Prod", "All", "Any", "EuclideanNorm")
def _reduction(op: Op) -> Optional[Shape]:
    given, axes = op.dims(0), op.ints(1)
    if given is None or axes is None:
        return None
    reduced = {axis % len(given) for axis in axes} if given else set()
    kept = op.attr("keep_dims")
    return [
        1 if axis in reduced else size
        for axis, size in enumerate(given)
        if kept or axis not in reduced
    ]


@_of("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _matmul(op: Op) -> Optional[Shape]:
    a, b = op.dims(0), op.dims(1)
    if a is None or b is None:
        return None
    of_a, of_b = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    left = a[-1] if op.attr(of_a) else a[-2]
    right = b[-2] if op.attr(of_b) else b[-1]
    rank = max(len(a), len(b)) - 2
    batch: List[Optional[Dim]] = [1] * rank
    for shape in (a[:-2], b[:-2]):
        for axis, size in enumerate(shape, rank - len(shape)):
            own = batch[axis]
            batch[axis] = None if own is None else values.broadcast(own, size)
    return [*batch, left, right]


@_of("ConcatV2")
def _concat(op: Op) -> Optional[Shape]:
    shapes = [op.dims(index) for index in range(len(op.inputs) - 1)]
    axis = op.ints(len(op.inputs) - 1)
    first = shapes[0]
    if axis is None or first is None:
        return None
    made: List[Optional[Dim]] = list(first)
    place = axis[0] % len(first)
    for shape in shapes[1:]:
        own = made[place]
        made[place] = None if own is None or shape is None else dims_lib.added(own, shape[place])
    return made


@_of("Pack")
def _pack(op: Op) -> Optional[Shape]:
    given = op.dims(0)
    if given is None:
        return None
    place = op.attr("axis") % (len(given) + 1)
    return [*given[:place], len(op.inputs), *given[place:]]


@_of("Unpack")
def _unpack(op: Op) -> Optional[Shape]:
    given = op.dims(0)
    if given is None:
        return None
    place = op.attr("axis") % len(given)
    return [*given[:place], *given[place + 1 :]]


@_of("Split", "SplitV")
def _split(op: Op) -> Optional[Shape]:
    value, place = (1, 0) if op.type == "Split" else (0, 2)
    given, axis = op.dims(value), op.ints(place)
    if given is None or axis is None:
        return None
    return [None if i == axis[0] % len(given) else size for i, size in enumerate(given)]


@_of("StridedSlice")
def _strided_slice(op: Op) -> Optional[Shape]:
    given, strides = op.dims(0), op.ints(3)
    begin, end = op.ints(1), op.ints(2)
    if given is None or strides is None:
        return None
    masks = {
        name: op.attr(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    taken = sum(1 for i in range(len(strides)) if not (masks["ellipsis"] | masks["new_axis"]) >> i & 1)
    made: List[Optional[Dim]] = []
    axis = 0
    for i in range(len(strides)):
        bit = 1 << i
        if masks["ellipsis"] & bit:
            skipped = len(given) - taken
            made += given[axis : axis + skipped]
            axis += skipped
            continue
        if masks["new_axis"] & bit:
            made.append(1)
            continue
        if not masks["shrink_axis"] & bit:
            from_start = masks["begin"] & bit or (begin is not None and begin[i] == 0)
            if from_start and masks["end"] & bit and strides[i] == 1:
                made.append(given[axis])
            else:
                made.append(None)
        axis += 1
    del end
    return [*made, *given[axis:]]


@_of("Slice")
def _slice(op: Op) -> Optional[Shape]:
    given, begin, size = op.dims(0), op.ints(1), op.value(2)
    if given is None or size is None:
        return None
    return [
        (given[i] if begin is not None and begin[i] == 0 else None)
        if isinstance(entry, int) and entry == -1
        else entry
        for i, entry in enumerate(size)
    ]


@_of("Fill", "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt")
def _made(op: Op) -> Optional[Shape]:
    shape = op.value(0)
    return None if shape is None else list(shape)


@_of("BroadcastTo")
def _broadcast_to(op: Op) -> Optional[Shape]:
    shape = op.value(1)
    return None if shape is None else list(shape)


@_of("Tile")
def _tile(op: Op) -> Optional[Shape]:
    given, times = op.dims(0), op.value(1)
    if given is None or times is None:
        return None
    return [dims_lib.times(size, many) for size, many in zip(given, times)]


@_of("GatherV2")
def _gather(op: Op) -> Optional[Shape]:
    given, indices, axis = op.dims(0), op.dims(1), op.ints(2)
    if given is None or indices is None or axis is None:
        return None
    place, batch = axis[0] % len(given), op.attr("batch_dims", 0)
    return [*given[:place], *indices[batch:], *given[place + 1 :]]


@_of("ResourceGather")
def _resource_gather(op: Op) -> Optional[Shape]:
    indices, rank = op.dims(1), op.out_rank()
    if indices is None or rank is None:
        return None
    return [*indices, *[None] * (rank - len(indices))]


@_of("OneHot")
def _one_hot(op: Op) -> Optional[Shape]:
    given, depth = op.dims(0), op.value(1)
    if given is None:
        return None
    place = op.attr("axis") % (len(given) + 1)
    return [*given[:place], None if depth is None else depth.item(), *given[place:]]


@_of("ArgMax", "ArgMin")
def _arg(op: Op) -> Optional[Shape]:
    given, axis = op.dims(0), op.ints(1)
    if given is None or axis is None:
        return None
    place = axis[0] % len(given)
    return [*given[:place], *given[place + 1 :]]


@_of("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy(op: Op) -> Optional[Shape]:
    given = op.dims(0)
    if given is None:
        return None
    return given[: op.out_rank()] if op.out_rank() else None


@_of(
    "Softmax",
    "LogSoftmax",
    "BiasAdd",
    "Cumsum",
    "Cumprod",
    "ReverseV2",
    "LRN",
    "IdentityN",
)
def _like_first(op: Op) -> Optional[Shape]:
    return op.dims(0) if op.type != "IdentityN" or len(op.inputs) == 1 else None


@_of("Conv1D", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def _rows_first(op: Op) -> Optional[Shape]:
    given, rank = op.dims(0), op.out_rank()
    return None if given is None or rank is None else [given[0], *[None] * (rank - 1)]
