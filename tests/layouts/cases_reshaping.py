"""Operations that change the axes of a tensor, or repeat its entries along axes."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from layouts.cases import Fixed, cases, sizes
from layouts.cases_elementwise import numbers, one_of, shape

INDICES = (np.int32, np.int64)


def pick(draw: np.random.RandomState, choices: Sequence[Any]) -> Any:
    """Returns one of some choices."""
    return choices[draw.randint(len(choices))]


def regrouped(draw: np.random.RandomState, size: int) -> list[int]:
    """Draws sizes whose product is `size`, in any order; some are 1."""
    made = []
    while size > 1:
        factor = int(draw.choice([n for n in range(2, size + 1) if size % n == 0]))
        made.append(factor)
        size //= factor
    made += [1] * (draw.rand() < 0.3)
    draw.shuffle(made)
    return made


def grouped(draw: np.random.RandomState, given: list[int]) -> list[int]:
    """Merges axes next to each other, or cuts some up; what comes before others stays before."""
    made: list[int] = []
    for size in given:
        if made and draw.rand() < 0.4:
            made[-1] *= size
        elif draw.rand() < 0.3:
            made += regrouped(draw, size)
        else:
            made.append(size)
        made += [1] * (draw.rand() < 0.1)
    return made


def some_unknown(draw: np.random.RandomState, made: list[int]) -> list[int]:
    """Leaves one of some sizes to be found out."""
    if made and 0 not in made and draw.rand() < 0.5:
        made[draw.randint(len(made))] = -1
    return made


@cases("Reshape")
def reshape(draw: np.random.RandomState) -> dict[str, Any]:
    given = shape(draw) + sizes(draw, draw.randint(2))
    made = some_unknown(draw, grouped(draw, given))
    dtype = np.int64 if draw.rand() < 0.2 else np.int32
    return {
        "tensor": numbers(draw, given, one_of(draw, "ffib")),
        "shape": Fixed(np.array(made, dtype)),
    }


@cases("Reshape")
def reshape_at_random(draw: np.random.RandomState) -> dict[str, Any]:
    given = shape(draw)
    made = some_unknown(draw, regrouped(draw, int(np.prod(given))))
    return {"tensor": numbers(draw, given), "shape": Fixed(np.array(made, np.int32))}


@cases("Reshape")
def reshape_of_nothing(draw: np.random.RandomState) -> dict[str, Any]:
    given = [*shape(draw), 0]
    draw.shuffle(given)
    made = [*given[::-1], int(draw.randint(1, 4))] if draw.rand() < 0.3 else list(given)
    if draw.rand() < 0.5:
        made[made.index(0)] = -1
    return {"tensor": numbers(draw, given), "shape": Fixed(np.array(made, np.int32))}


@cases("Transpose")
def transpose(draw: np.random.RandomState) -> dict[str, Any]:
    given = shape(draw)
    order = draw.permutation(len(given)).astype(pick(draw, INDICES))
    return {"x": numbers(draw, given, one_of(draw, "ffib")), "perm": Fixed(order)}


@cases("ConjugateTranspose")
def conjugate_transpose(draw: np.random.RandomState) -> dict[str, Any]:
    return {**transpose(draw), "x": numbers(draw, shape(draw)[:1] + [2], one_of(draw, "fc")),
            "perm": Fixed(draw.permutation(2).astype(np.int32))}  # fmt: skip


@cases("ExpandDims")
def expand_dims(draw: np.random.RandomState) -> dict[str, Any]:
    given = shape(draw)
    axis = np.array(draw.randint(-len(given) - 1, len(given) + 1), np.int32)
    axis = axis.reshape(pick(draw, [(), (), (1,)]))
    return {"input": numbers(draw, given, one_of(draw, "ffib")), "axis": Fixed(axis)}


@cases("Squeeze")
def squeeze(draw: np.random.RandomState) -> dict[str, Any]:
    given = [size for size in shape(draw) for size in ([1, size] if draw.rand() < 0.5 else [size])]
    ones = [axis for axis, size in enumerate(given) if size == 1]
    chosen = [axis for axis in ones if draw.rand() < 0.6]
    axes = [int(axis) - (len(given) if draw.rand() < 0.4 else 0) for axis in chosen]
    return {"input": numbers(draw, given, one_of(draw, "ffib")), "axis": axes}


@cases("Tile")
def tile(draw: np.random.RandomState) -> dict[str, Any]:
    given = shape(draw)
    many = [int(draw.choice([1, 1, 1, 2, 3, 0])) for _ in given]
    return {
        "input": numbers(draw, given, one_of(draw, "ffib")),
        "multiples": Fixed(np.array(many, np.int32)),
    }


@cases("Tile")
def tile_to_rows(draw: np.random.RandomState) -> dict[str, Any]:
    rows = sizes(draw, 1)[0]
    given = [int(draw.choice([1, 1, 2])), *sizes(draw, draw.randint(2))]
    many = [rows, *[int(draw.choice([1, 1, 2, rows])) for _ in given[1:]]]
    places = draw.permutation(len(given))
    value = numbers(draw, [given[place] for place in places])
    multiples = np.array([many[place] for place in places], np.int32)
    return {"input": value if draw.rand() < 0.7 else Fixed(value), "multiples": Fixed(multiples)}


@cases("BroadcastTo")
def broadcast_to(draw: np.random.RandomState) -> dict[str, Any]:
    made = shape(draw)
    given = [1 if draw.rand() < 0.4 else size for size in made][draw.randint(len(made) + 1) :]
    value = numbers(draw, given, one_of(draw, "ffib"))
    dtype = pick(draw, INDICES)
    return {
        "input": value if draw.rand() < 0.8 else Fixed(value),
        "shape": Fixed(np.array(made, dtype)),
    }


@cases("Fill")
def fill(draw: np.random.RandomState) -> dict[str, Any]:
    value = numbers(draw, [], one_of(draw, "ffib"))
    dims = Fixed(np.array(sizes(draw, draw.randint(1, 4)), pick(draw, INDICES)))
    return {"dims": dims, "value": value if draw.rand() < 0.6 else Fixed(value)}
