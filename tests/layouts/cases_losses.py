"""Softmax, and losses of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from layouts.cases import cases, sizes
from layouts.cases_elementwise import numbers, shape


@cases("Softmax", "LogSoftmax")
def softmax(draw: np.random.RandomState) -> dict[str, Any]:
    return {"logits": numbers(draw, shape(draw))}


@cases("SoftmaxCrossEntropyWithLogits")
def cross_entropy(draw: np.random.RandomState) -> dict[str, Any]:
    """Draws logits and labels of one shape: of others, TensorFlow infers shapes that are not so."""
    size = sizes(draw, 2)
    return {"features": numbers(draw, size), "labels": np.asarray(draw.rand(*size))}


@cases("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(draw: np.random.RandomState) -> dict[str, Any]:
    rows, classes = sizes(draw, 2)
    dtype = draw.choice([np.int32, np.int64])
    return {
        "features": numbers(draw, [rows, classes]),
        "labels": draw.randint(0, classes, [rows]).astype(dtype),
    }
