"""Operations that put entries where indices say, or sum up those of equal indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from layouts.cases import Fixed, cases, sizes
from layouts.cases_indexing import coordinates, integers, shapes


@cases("ScatterNd")
def scatter_nd(draw: np.random.RandomState) -> dict[str, Any]:
    shape = shapes(draw, 1, 3)
    many = draw.randint(1, len(shape) + 1)
    indices = coordinates(draw, shape, many)
    if indices.ndim == 1:
        indices = indices[np.newaxis]
    return {
        "indices": indices,
        "updates": _numbers(draw, [*indices.shape[:-1], *shape[many:]]),
        "shape": Fixed(np.array(shape, indices.dtype)),
    }


def _numbers(draw: np.random.RandomState, shape: list[int]) -> np.ndarray:
    """Draws entries of a type: such as add up, and such as do not."""
    made = np.asarray(draw.randint(-9, 10, shape))
    kind = draw.choice(["float64", "float64", "float64", "int32", "complex64", "bool"])
    return made > 0 if kind == "bool" else made.astype(kind)


@cases("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax")
@cases("TensorScatterMin")
def into_tensor(draw: np.random.RandomState) -> dict[str, Any]:
    shape = shapes(draw, 1, 3)
    many = draw.randint(1, len(shape) + 1)
    # Each entry is changed once: which one would be the last is not defined.
    entries = int(np.prod(shape[:many]))
    places = draw.permutation(entries)[: draw.randint(1, entries + 1)]
    indices = np.stack(np.unravel_index(places, shape[:many]), -1).astype(np.int32)
    return {
        "tensor": draw.randn(*shape),
        "indices": indices,
        "updates": draw.randn(*indices.shape[:-1], *shape[many:]),
    }


@cases("ScatterNdNonAliasingAdd")
def add_into_input(draw: np.random.RandomState) -> dict[str, Any]:
    drawn = into_tensor(draw)
    return {"input": drawn.pop("tensor"), **drawn}


@cases("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def unsorted_segments(draw: np.random.RandomState) -> dict[str, Any]:
    data, many = shapes(draw, 1, 3), draw.randint(1, 7)
    ids = integers(draw, many + 1, data[: draw.randint(1, len(data) + 1)]) - 1  # -1 is dropped.
    values = draw.randint(-3, 4, data)
    return {
        "data": values.astype(draw.choice(["float64", "float64", "int32"])),
        "segment_ids": ids,
        "num_segments": Fixed(many),
    }


def ids(draw: np.random.RandomState, many: int) -> np.ndarray:
    """Draws sorted ids; some are left out."""
    return np.sort(integers(draw, many + 1, [many]))


@cases("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def segments(draw: np.random.RandomState) -> dict[str, Any]:
    data = shapes(draw, 1, 3)
    return {
        "data": draw.randint(-9, 10, data).astype(draw.choice(["float64", "int32"])),
        "segment_ids": ids(draw, data[0]),
    }


@cases("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
def sparse_segments(draw: np.random.RandomState) -> dict[str, Any]:
    data = shapes(draw, 1, 3)
    (many,) = sizes(draw, 1)
    return {
        "data": draw.randn(*data),
        "indices": draw.randint(0, data[0], [many]).astype(np.int32),
        "segment_ids": ids(draw, many).astype(np.int32),
    }


@cases(
    "SparseSegmentSumWithNumSegments",
    "SparseSegmentMeanWithNumSegments",
    "SparseSegmentSqrtNWithNumSegments",
)
def many_sparse_segments(draw: np.random.RandomState) -> dict[str, Any]:
    drawn = sparse_segments(draw)
    many = drawn["segment_ids"][-1] + draw.randint(1, 3)
    return {**drawn, "num_segments": Fixed(np.array(many, np.int32))}


@cases("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")
def gradients_of_sparse_segments(draw: np.random.RandomState) -> dict[str, Any]:
    drawn = sparse_segments(draw)
    shape = drawn.pop("data").shape
    given = [int(drawn["segment_ids"][-1]) + 1, *shape[1:]]
    return {**drawn, "grad": draw.randn(*given), "output_dim0": Fixed(shape[0])}


@cases("DynamicStitch", "ParallelDynamicStitch")
def stitch(draw: np.random.RandomState) -> dict[str, Any]:
    behind = shapes(draw, 0, 2)
    places = [shapes(draw, 0, 2) for _ in range(draw.randint(1, 4))]
    entries = [int(np.prod(shape, dtype=int)) for shape in places]
    order = np.split(draw.permutation(sum(entries)), np.cumsum(entries)[:-1])
    indices = [own.reshape(shape).astype(np.int32) for own, shape in zip(order, places)]
    data = [np.asarray(draw.normal(size=[*shape, *behind])) for shape in places]
    return {"indices": indices, "data": data}


@cases("SparseTensorDenseMatMul")
def sparse_matmul(draw: np.random.RandomState) -> dict[str, Any]:
    m, k, n, many = sizes(draw, 4)
    a, b = (bool(flag) for flag in draw.rand(2) < 0.5)
    shape = np.array([k, m] if a else [m, k], np.int64)
    entries = np.stack([draw.randint(0, size, [many]) for size in shape], -1).astype(np.int64)
    return {
        "a_indices": entries,
        "a_values": draw.randn(many),
        "a_shape": Fixed(shape),
        "b": draw.randn(*([n, k] if b else [k, n])),
        "adjoint_a": a,
        "adjoint_b": b,
    }


@cases("HistogramFixedWidth")
def histogram(draw: np.random.RandomState) -> dict[str, Any]:
    return {
        "values": np.asarray(draw.normal(size=shapes(draw, 0, 3))),
        "value_range": np.array([-1.0, 1.5]),
        "nbins": Fixed(draw.randint(1, 6)),
    }
