"""Operations that take parts of axes, put them back, pad axes, or reverse them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import Fixed, cases
from layouts.cases_elementwise import numbers, one_of, shape
from layouts.cases_joining import signed
from layouts.cases_reshaping import INDICES, pick


@cases("Slice")
def slices(draw: np.random.RandomState) -> dict[str, Any]:
    given, dtype = shape(draw), pick(draw, INDICES)
    begin, many = zip(*(piece(draw, size) for size in given))
    return {
        "input": numbers(draw, given, one_of(draw, "ffib")),
        "begin": Fixed(np.array(begin, dtype)),
        "size": Fixed(np.array(many, dtype)),
    }


def piece(draw: np.random.RandomState, size: int) -> tuple[int, int]:
    """Draws where a slice of an axis begins, and how many entries it has: often all, or half."""
    low = int(draw.randint(size))
    some = (low, int(draw.randint(1, size - low + 1)))
    return pick(draw, [(0, -1), (0, size), (0, size), (size // 2, -1), (0, (size + 1) // 2), some])


def spec(draw: np.random.RandomState, given: list[int]) -> dict[str, Any]:
    """Draws what is sliced of a tensor: masks, and for each entry where it begins and ends.

    Axes are often taken whole, in one of the ways in which that can be said.
    """
    begin, end, strides = [], [], []
    masks = dict.fromkeys(("begin", "end", "ellipsis", "new_axis", "shrink_axis"), 0)
    axes = list(given)
    skipped = draw.randint(len(axes) + 1)
    ellipsis_at = draw.randint(len(axes) + 1) if draw.rand() < 0.4 else None
    place = axis = 0
    while axis < len(axes):
        bit = 1 << place
        low, high, stride = int(draw.randint(-2, 3)), int(draw.randint(-2, 7)), 1
        if ellipsis_at is not None and axis == ellipsis_at:
            masks["ellipsis"] |= bit
            axis, ellipsis_at = min(axis + skipped, len(axes)), None
        elif draw.rand() < 0.15:
            masks["new_axis"] |= bit
            masks["shrink_axis"] |= bit * (draw.rand() < 0.3)
        elif draw.rand() < 0.2:
            masks["shrink_axis"] |= bit
            low, axis = int(draw.randint(-axes[axis], axes[axis])), axis + 1
            high = low + 1 or axes[axis - 1]
        elif draw.rand() < 0.7:
            low, high = 0, axes[axis] * pick(draw, [1, 2])
            for name, chance in (("begin", 0.5), ("end", 0.5)):
                masks[name] |= bit * (draw.rand() < chance)
            axis += 1
        else:
            stride = int(draw.choice([-2, -1, 1, 2]))
            for name in ("begin", "end"):
                masks[name] |= bit * (draw.rand() < 0.3)
            axis += 1
        begin, end, strides = [*begin, low], [*end, high], [*strides, stride]
        place += 1
        if draw.rand() < 0.15 and ellipsis_at is None:
            break
    dtype = pick(draw, INDICES)
    bounds = {"begin": begin, "end": end, "strides": strides}
    return {
        **{name: Fixed(np.array(entries, dtype)) for name, entries in bounds.items()},
        **{f"{name}_mask": int(mask) for name, mask in masks.items()},
    }


@cases("StridedSlice")
def strided_slice(draw: np.random.RandomState) -> dict[str, Any]:
    given = shape(draw)
    return {"input": numbers(draw, given, one_of(draw, "ffib")), **spec(draw, given)}


@cases("StridedSliceGrad")
def strided_slice_grad(draw: np.random.RandomState) -> dict[str, Any]:
    given = shape(draw)
    said = spec(draw, given)
    bounds = {
        name: entry.array if isinstance(entry, Fixed) else entry for name, entry in said.items()
    }
    with tf.Graph().as_default(), tf.Session() as session:
        taken = tf.raw_ops.StridedSlice(input=np.zeros(given), **bounds)
        made = session.run(taken).shape
    dtype = said["begin"].array.dtype
    dy = numbers(draw, list(made), one_of(draw, "ffi"))
    return {"shape": Fixed(np.array(given, dtype)), **said, "dy": dy}


def paddings(draw: np.random.RandomState, rank: int, most: int = 2) -> Fixed:
    """Draws how much is padded before and after; often nothing."""
    made = draw.randint(0, most + 1, [rank, 2]) * (draw.rand(rank, 1) < 0.5)
    return Fixed(made.astype(pick(draw, INDICES)))


@cases("Pad")
def pad(draw: np.random.RandomState) -> dict[str, Any]:
    given = shape(draw)
    return {
        "input": numbers(draw, given, one_of(draw, "ffi")),
        "paddings": paddings(draw, len(given)),
    }


@cases("PadV2")
def pad_with(draw: np.random.RandomState) -> dict[str, Any]:
    given, kind = shape(draw), one_of(draw, "ffib")
    constant = np.asarray(numbers(draw, [], kind) * pick(draw, [0, 1])).astype(
        numbers(draw, [], kind).dtype
    )
    return {
        "input": numbers(draw, given, kind),
        "paddings": paddings(draw, len(given)),
        "constant_values": Fixed(constant) if draw.rand() < 0.7 else constant,
    }


@cases("MirrorPad")
def mirror_pad(draw: np.random.RandomState) -> dict[str, Any]:
    given, mode = shape(draw), pick(draw, ["REFLECT", "SYMMETRIC"])
    most = max(min(given) - (mode == "REFLECT"), 0)
    return {
        "input": numbers(draw, given, one_of(draw, "ffi")),
        "paddings": paddings(draw, len(given), min(most, 2)),
        "mode": mode,
    }


@cases("MirrorPadGrad")
def mirror_pad_grad(draw: np.random.RandomState) -> dict[str, Any]:
    said = mirror_pad(draw)
    padded = said["input"].shape + said["paddings"].array.sum(1)
    return {**said, "input": numbers(draw, [int(size) for size in padded])}


@cases("ReverseV2")
def reverse(draw: np.random.RandomState) -> dict[str, Any]:
    given = shape(draw)
    axes = draw.permutation(len(given))[: draw.randint(len(given) + 1)]
    chosen = np.array([signed(draw, axis, len(given)) for axis in axes])
    return {
        "tensor": numbers(draw, given, one_of(draw, "ffib")),
        "axis": Fixed(chosen.astype(pick(draw, INDICES))),
    }


@cases("ReverseSequence")
def reverse_sequence(draw: np.random.RandomState) -> dict[str, Any]:
    given = shape(draw)
    while len(given) < 2:
        given = shape(draw)
    along, batch = (int(axis) for axis in draw.permutation(len(given))[:2])
    lengths = draw.randint(0, given[along] + 1, given[batch])
    lengths[0] = given[along]
    return {
        "input": numbers(draw, given, one_of(draw, "ffi")),
        "seq_lengths": lengths.astype(pick(draw, INDICES)),
        "seq_dim": along,
        "batch_dim": batch,
    }
