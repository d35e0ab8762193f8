"""Operations that order entries, or search among ordered ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from layouts.cases import Fixed, cases, sizes
from layouts.cases_indexing import shapes


@cases("TopKV2")
def top_k(draw: np.random.RandomState) -> dict[str, Any]:
    shape = shapes(draw, 1, 4)
    return {
        "input": draw.randint(0, 9, shape) * 1.0,  # Some are equal.
        "k": Fixed(draw.randint(0, shape[-1] + 1)),
        "sorted": bool(draw.randint(2)),
    }


@cases("NthElement")
def nth_element(draw: np.random.RandomState) -> dict[str, Any]:
    shape = shapes(draw, 1, 4)
    return {
        "input": draw.randn(*shape),
        "n": Fixed(draw.randint(0, shape[-1])),
        "reverse": bool(draw.randint(2)),
    }


def predictions(draw: np.random.RandomState) -> dict[str, Any]:
    rows, classes = sizes(draw, 2)
    return {
        "predictions": draw.randint(0, 9, [rows, classes]).astype(np.float32),
        "targets": draw.randint(0, classes, [rows]).astype(np.int32),
    }


@cases("InTopK")
def in_top_k(draw: np.random.RandomState) -> dict[str, Any]:
    return {**predictions(draw), "k": int(draw.randint(1, 5))}


@cases("InTopKV2")
def in_top_k_v2(draw: np.random.RandomState) -> dict[str, Any]:
    return {**predictions(draw), "k": Fixed(draw.randint(1, 5))}


@cases("NearestNeighbors")
def nearest(draw: np.random.RandomState) -> dict[str, Any]:
    rows, size = sizes(draw, 2)
    centers = draw.randint(2, 7)  # Of one alone, all points would be nearest to it.
    return {
        "points": draw.randn(rows, size).astype(np.float32),
        "centers": draw.randn(centers, size).astype(np.float32),
        "k": Fixed(np.int64(draw.randint(1, centers + 1))),
    }


@cases("LowerBound", "UpperBound")
def search(draw: np.random.RandomState) -> dict[str, Any]:
    rows, entries, wanted = sizes(draw, 3)
    return {
        "sorted_inputs": np.sort(draw.randint(0, 9, [rows, entries]) * 1.0),
        "values": draw.randint(0, 9, [rows, wanted]) * 1.0,
    }
