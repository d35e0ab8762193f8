"""Reads a `StridedSlice`: the range that it takes of each axis, and the axis of the result."""

from __future__ import annotations

from typing import NamedTuple

from replicate.layouts import values
from replicate.layouts.dims import Dim, over
from replicate.layouts.rule import Op


class Taken(NamedTuple):
    """A step of a slice, such as `1:3`, `2`, `None`, or one of the axes that an ellipsis leaves.

    Attributes:
        axis: The axis of the input, None if it is a new one.
        place: The index into `begin`, `end` and `strides`, None if the whole axis is taken.
        made: The axis of the result, None if a single entry is taken.
    """

    axis: int | None
    place: int | None
    made: int | None


def steps(op: Op, rank: int) -> list[Taken] | None:
    """Returns the steps of a slice in the order of the result's axes, None if they are not known.

    Args:
        op: `StridedSlice`, or an operation with its masks.
        rank: The rank of the tensor that is sliced.
    """
    count = op.inputs[1].shape.num_elements()
    if count is None:
        return None
    kinds = [_kind(op, place) for place in range(count)]
    if "ellipsis" not in kinds:
        kinds.append("ellipsis")  # Axes after the last step are taken whole.
    left = rank - sum(kind in ("range", "entry") for kind in kinds)
    if left < 0 or kinds.count("ellipsis") > 1:
        return None
    taken: list[Taken] = []
    axis = made = 0
    for place, kind in enumerate(kinds):
        if kind == "ellipsis":
            taken += [Taken(axis + i, None, made + i) for i in range(left)]
            axis, made = axis + left, made + left
            continue
        taken.append(
            Taken(None if kind == "new" else axis, place, None if kind == "entry" else made)
        )
        axis, made = axis + (kind != "new"), made + (kind != "entry")
    return taken


def _kind(op: Op, place: int) -> str:
    if op.attr("ellipsis_mask") >> place & 1:
        return "ellipsis"
    if op.attr("new_axis_mask") >> place & 1:
        return "new"
    return "entry" if op.attr("shrink_axis_mask") >> place & 1 else "range"


class Range(NamedTuple):
    """The bounds and the stride of a slice of an axis, None for each that is not known.

    A bound that a mask leaves open is that of a slice with a positive stride.
    """

    begin: Dim | None
    end: Dim | None
    stride: Dim | None


def taken_range(op: Op, place: int, size: Dim) -> Range:
    """Returns the range that is taken of an axis of `size` entries; see `steps`."""
    begin, end, strides = (values.entries(op, index) for index in (1, 2, 3))
    low = None if begin is None else begin[place]
    high = None if end is None else end[place]
    stride = None if strides is None else strides[place]
    # A mask is ignored where a single entry is taken.
    is_range = not op.attr("shrink_axis_mask") >> place & 1
    if is_range and op.attr("begin_mask") >> place & 1:
        low = 0
    if is_range and op.attr("end_mask") >> place & 1:
        high = size
    return Range(low, high, stride)


def takes_of_each(op: Op, step: Taken, size: Dim, rows: Dim) -> bool:
    """Whether a step takes the same entries of each row, and so of a tower's rows as of all.

    Args:
        op: See `steps`.
        step: The step.
        size: How many entries the axis has.
        rows: n.
    """
    if step.place is None:
        return True
    low, stride = _of_all(op, step, size)
    each = over(size, rows)
    if low is None or stride is None:
        return False
    return stride == 1 or (isinstance(each, int) and each % stride == 0)


def _of_all(op: Op, step: Taken, size: Dim) -> tuple[int | None, int | None]:
    """Returns the first entry and the stride of a slice that reaches through all of an axis.

    Both are None if it does not, or if an axis of another multiple of the stride would be sliced
    differently.
    """
    if step.axis is None or step.made is None or step.place is None:
        return None, None
    low, high, stride = taken_range(op, step.place, size)
    if not isinstance(low, int) or not isinstance(stride, int) or not 0 <= low < stride:
        return None, None
    return (low, stride) if high is not None and _is_least(size, high) else (None, None)


def _is_least(size: Dim, high: Dim) -> bool:
    """Whether a slice up to `high` ends with the last entry of an axis, whatever symbols are."""
    if isinstance(size, int) and isinstance(high, int):
        return size <= high
    many = over(high, size)
    return isinstance(many, int) and many >= 1


def size_taken(op: Op, step: Taken, size: Dim) -> Dim | None:
    """Returns how many entries a step takes of an axis of `size` entries, None if not known."""
    if step.place is None:
        return size
    if step.axis is None:
        return 1
    _, by = _of_all(op, step, size)
    if by is not None and over(size, by) is not None:
        return over(size, by)
    low, high, stride = taken_range(op, step.place, size)
    if not isinstance(size, int) or not isinstance(stride, int) or not stride:
        return None
    masks = [op.attr(f"{name}_mask") >> step.place & 1 for name in ("begin", "end")]
    if not all(mask or isinstance(x, int) for mask, x in zip(masks, (low, high))):
        return None
    bounds = [None if mask else x for mask, x in zip(masks, (low, high))]
    return len(range(*slice(bounds[0], bounds[1], stride).indices(size)))
