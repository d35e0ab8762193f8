"""Integers that are moved without arithmetic: stacked, joined, split, sliced or reordered."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.values_table import LARGEST, Values, array, as_array, numbers, values


@values("Identity", "IdentityN", "StopGradient", "PreventGradient", "Snapshot", "GuaranteeConst")
def _same(op: Op) -> Values:
    return [op.value(index) for index in range(len(op.inputs))]


# By type: the function of NumPy of an array and of the integers of the second input.
_ARRANGED: dict[str, Callable[[np.ndarray[Any, Any], Any], np.ndarray[Any, Any]]] = {
    "BroadcastTo": np.broadcast_to,
    "ExpandDims": lambda value, axis: np.expand_dims(value, axis[0]),
    "Reshape": np.reshape,
    "ReverseV2": np.flip,
    "Transpose": np.transpose,
}


@values(*_ARRANGED)
def _arranged(op: Op) -> Values:
    value, how = op.value(0), op.ints(1)
    return None if value is None or how is None else [_ARRANGED[op.type](value, how)]


@values("Squeeze")
def _squeeze(op: Op) -> Values:
    value, axes = op.value(0), op.attr("squeeze_dims")
    return None if value is None else [np.squeeze(value, tuple(axes) or None)]


@values("Pack")
def _pack(op: Op) -> Values:
    parts = [op.value(index) for index in range(len(op.inputs))]
    return _joined(np.stack, parts, op.attr("axis"))


@values("ConcatV2", "Concat")
def _concat(op: Op) -> Values:
    parts = [op.value(index) for index in range(len(op.inputs))]
    axis = parts.pop(-1 if op.type == "ConcatV2" else 0)
    return None if axis is None else _joined(np.concatenate, parts, axis.item())


def _joined(function: Any, parts: list[np.ndarray[Any, Any] | None], axis: Any) -> Values:
    """Joins arrays; if one is unknown, so is its shape, and the result is unknown."""
    if any(part is None for part in parts) or not isinstance(axis, int):
        return None
    return [function(parts, axis)]


@values("Unpack")
def _unpack(op: Op) -> Values:
    value = op.value(0)
    if value is None:
        return None
    return [as_array(part) for part in np.moveaxis(value, op.attr("axis"), 0)]


@values("Split")
def _split(op: Op) -> Values:
    axis, value = op.ints(0), op.value(1)
    if axis is None or value is None:
        return None
    return list(np.split(value, op.attr("num_split"), axis[0]))


@values("SplitV")
def _split_unevenly(op: Op) -> Values:
    value, sizes, axis = op.value(0), op.ints(1), op.ints(2)
    if value is None or sizes is None or axis is None:
        return None
    rest = value.shape[axis[0]] - sum(size for size in sizes if size != -1)
    ends = np.cumsum([rest if size == -1 else size for size in sizes])
    return list(np.split(value, ends[:-1], axis[0]))


@values("StridedSlice")
def _strided_slice(op: Op) -> Values:
    """Slices as Python does, unless a mask says otherwise."""
    value, strides = op.value(0), op.ints(3)
    if value is None or strides is None:
        return None
    key: list[Any] = []
    for place, stride in enumerate(strides):
        if op.attr("ellipsis_mask") >> place & 1:
            key.append(Ellipsis)
        elif op.attr("new_axis_mask") >> place & 1:
            key.append(None)
        else:
            taken = _taken(op, place, stride)
            if taken is None:
                return None
            key.append(taken)
    return [as_array(value[tuple(key)])]


def _taken(op: Op, place: int, stride: int) -> int | slice | None:
    """Returns an index or a slice, None if a bound is unknown and no mask leaves it open."""
    bounds = [None if value is None else value[place] for value in (op.value(1), op.value(2))]
    if op.attr("shrink_axis_mask") >> place & 1:
        return bounds[0] if isinstance(bounds[0], int) else None
    masks = [op.attr(name) >> place & 1 for name in ("begin_mask", "end_mask")]
    if not all(mask or isinstance(bound, int) for mask, bound in zip(masks, bounds)):
        return None
    low, high = [None if mask else bound for mask, bound in zip(masks, bounds)]
    return slice(low, high, stride)


@values("Slice")
def _slice(op: Op) -> Values:
    value, begin, size = op.value(0), op.ints(1), op.ints(2)
    if value is None or begin is None or size is None:
        return None
    key = tuple(slice(low, None if many < 0 else low + many) for low, many in zip(begin, size))
    return [value[key]]


@values("GatherV2", "Gather")
def _gather(op: Op) -> Values:
    axis = op.ints(2) if op.type == "GatherV2" else (0,)
    value, indices = op.value(0), numbers(op.value(1))
    if value is None or indices is None or axis is None or op.attr("batch_dims", 0):
        return None
    return [as_array(np.take(value, indices, axis[0]))]


@values("Tile")
def _tile(op: Op) -> Values:
    value, times = op.value(0), op.ints(1)
    if value is None or times is None or value.size * np.prod(times, dtype=np.int64) > LARGEST:
        return None
    return [np.tile(value, times)]


@values("InvertPermutation")
def _inverted(op: Op) -> Values:
    order = op.ints(0)
    return None if order is None else [array(np.argsort(order).tolist())]


@values("ListDiff")
def _list_diff(op: Op) -> Values:
    given, without = op.ints(0), op.ints(1)
    if given is None or without is None:
        return None
    kept = [(entry, index) for index, entry in enumerate(given) if entry not in without]
    return [array([entry for entry, _ in kept]), array([index for _, index in kept])]


@values("DynamicStitch")
def _stitch(op: Op) -> Values:
    """Puts entries at their places; if there are several for one, the last one counts."""
    made: dict[int, Dim | None] = {}
    half = len(op.inputs) // 2
    for index in range(half):
        places, entries = numbers(op.value(index)), op.value(half + index)
        if places is None or entries is None or entries.shape != places.shape:
            return None
        made.update(zip(places.ravel().tolist(), entries.ravel()))
    if sorted(made) != list(range(len(made))):
        return None
    return [array([made[place] for place in sorted(made)])]
