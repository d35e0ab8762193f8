"""Reductions over axes, sums along one, and counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from layouts.cases import Fixed, cases, sizes
from layouts.cases_elementwise import numbers, one_of, shape, words


def axes(draw: np.random.RandomState, rank: int) -> Fixed:
    """Draws axes to reduce: none, some, or all; a scalar or a vector; some are negative."""
    chosen = draw.permutation(rank)[: draw.randint(rank + 1)]
    signed = [int(axis) - (rank if draw.rand() < 0.4 else 0) for axis in chosen]
    dtype = np.int64 if draw.rand() < 0.2 else np.int32
    if len(signed) == 1 and draw.rand() < 0.5:
        return Fixed(np.asarray(signed[0], dtype))
    return Fixed(np.asarray(signed, dtype))


def reduced(draw: np.random.RandomState, kind: str) -> dict[str, Any]:
    size = sizes(draw, draw.choice([1, 2, 3, 3]))
    return {
        "input": numbers(draw, size, kind),
        "axis": axes(draw, len(size)),
        "keep_dims": bool(draw.randint(2)),
    }


@cases("Sum", "Mean", "Prod", "Max", "Min")
def of_integers(draw: np.random.RandomState) -> dict[str, Any]:
    return reduced(draw, one_of(draw, "iiu"))


@cases("Sum", "Mean", "Prod", "Max", "Min")
def of_numbers(draw: np.random.RandomState) -> dict[str, Any]:
    return reduced(draw, "f")


@cases("Sum", "Mean", "Prod")
def of_complex_numbers(draw: np.random.RandomState) -> dict[str, Any]:
    return reduced(draw, "c")


@cases("EuclideanNorm")
def norm(draw: np.random.RandomState) -> dict[str, Any]:
    return reduced(draw, "f")


@cases("All", "Any")
def truths(draw: np.random.RandomState) -> dict[str, Any]:
    return reduced(draw, "b")


@cases("ReduceJoin")
def joined(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    reduced_axes = axes(draw, len(size)).array.astype(np.int32)
    return {
        "inputs": words(draw, size),
        "reduction_indices": Fixed(reduced_axes),
        "keep_dims": bool(draw.randint(2)),
        "separator": "-",
    }


@cases("L2Loss")
def half_sum_of_squares(draw: np.random.RandomState) -> dict[str, Any]:
    return {"t": numbers(draw, shape(draw))}


@cases("BiasAddGrad")
def bias_add_grad(draw: np.random.RandomState) -> dict[str, Any]:
    size = sizes(draw, draw.randint(2, 5))
    # Of one entry after the channels, TensorFlow 1.15 makes what is not so.
    is_nchw = np.prod(size[2:]) > 1 and draw.rand() < 0.5
    return {"out_backprop": numbers(draw, size), "data_format": "NCHW" if is_nchw else "NHWC"}


def along(draw: np.random.RandomState, rank: int) -> Fixed:
    return Fixed(np.asarray(draw.randint(-rank, rank), np.int32))


@cases("ArgMax", "ArgMin")
def position(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {
        "input": numbers(draw, size, one_of(draw, "fi")),
        "dimension": along(draw, len(size)),
    }


@cases("Cumsum", "Cumprod", "CumulativeLogsumexp")
def cumulative(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {
        "x": numbers(draw, size),
        "axis": along(draw, len(size)),
        "exclusive": bool(draw.randint(2)),
        "reverse": bool(draw.randint(2)),
    }


def weights(draw: np.random.RandomState, size: list[int]) -> np.ndarray:
    """Draws weights of entries, in half of the cases none."""
    return numbers(draw, size if draw.rand() < 0.5 else [0])


@cases("Bincount")
def bincount(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    own = weights(draw, size)
    if own.ndim == 2 and draw.rand() < 0.2:
        own = own.T  # Kernels take entry by entry.
    return {
        "arr": numbers(draw, size, "i", least=0),
        "size": Fixed(int(draw.randint(2, 6))),
        "weights": own,
    }


@cases("DenseBincount")
def dense_bincount(draw: np.random.RandomState) -> dict[str, Any]:
    size = sizes(draw, draw.randint(1, 3))
    return {
        "input": numbers(draw, size, "i", least=0),
        "size": Fixed(int(draw.randint(2, 6))),
        "weights": weights(draw, size),
        "binary_output": bool(draw.rand() < 0.3),
    }
