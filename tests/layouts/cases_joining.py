"""Operations that join tensors along an axis, or cut one up."""

from __future__ import annotations

from typing import Any

import numpy as np

from layouts.cases import Fixed, cases, sizes
from layouts.cases_elementwise import numbers, one_of, shape
from layouts.cases_reshaping import INDICES, pick


def signed(draw: np.random.RandomState, axis: int, rank: int) -> int:
    """Counts an axis from the end, at times."""
    return int(axis) - (rank if draw.rand() < 0.4 else 0)


def joined(draw: np.random.RandomState) -> tuple[list[np.ndarray], int]:
    """Draws two or three tensors that differ on one axis, and that axis."""
    size, kind = shape(draw), one_of(draw, "fffib")
    axis = int(draw.randint(len(size)))
    parts = []
    for _ in range(draw.randint(2, 4)):
        # Often as long as the others, so that rows may be on that axis, too.
        own = size[axis] if draw.rand() < 0.5 else int(draw.choice([0, *range(1, 7), *range(1, 7)]))
        parts.append(numbers(draw, [*size[:axis], own, *size[axis + 1 :]], kind))
    return parts, signed(draw, axis, len(size))


@cases("ConcatV2")
def concat(draw: np.random.RandomState) -> dict[str, Any]:
    parts, axis = joined(draw)
    return {"values": parts, "axis": Fixed(np.array(axis, pick(draw, INDICES)))}


@cases("Concat")
def old_concat(draw: np.random.RandomState) -> dict[str, Any]:
    parts, axis = joined(draw)
    return {"values": parts, "concat_dim": Fixed(np.array(axis, np.int32))}


@cases("Pack")
def pack(draw: np.random.RandomState) -> dict[str, Any]:
    size, kind = shape(draw)[: draw.randint(4)], one_of(draw, "fffib")
    parts = [numbers(draw, size, kind) for _ in range(draw.randint(1, 4))]
    return {"values": parts, "axis": int(draw.randint(-len(size) - 1, len(size) + 1))}


@cases("Unpack")
def unpack(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    axis = int(draw.randint(len(size)))
    value = numbers(draw, size, one_of(draw, "fffib"))
    return {"value": value, "num": size[axis], "axis": signed(draw, axis, len(size))}


@cases("Split")
def split(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    axis = int(draw.randint(len(size)))
    count = int(draw.choice([n for n in range(1, size[axis] + 1) if size[axis] % n == 0]))
    value = numbers(draw, size, one_of(draw, "fffib"))
    return {"axis": Fixed(signed(draw, axis, len(size))), "value": value, "num_split": count}


@cases("SplitV")
def split_unevenly(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    axis = int(draw.randint(len(size)))
    cuts = np.sort(draw.randint(0, size[axis] + 1, draw.randint(3)))
    parts = np.diff([0, *cuts, size[axis]]).astype(pick(draw, INDICES))
    if len(parts) > 1 and draw.rand() < 0.4:
        parts[draw.randint(len(parts))] = -1
    return {
        "value": numbers(draw, size, one_of(draw, "fffib")),
        "size_splits": Fixed(parts),
        "axis": Fixed(signed(draw, axis, len(size))),
        "num_split": len(parts),
    }


@cases("Pack")
def pack_rows(draw: np.random.RandomState) -> dict[str, Any]:
    parts = [numbers(draw, sizes(draw, 1)) for _ in range(1)] * draw.randint(1, 4)
    return {
        "values": [part + index for index, part in enumerate(parts)],
        "axis": int(draw.randint(-2, 2)),
    }
