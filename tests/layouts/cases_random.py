"""Random numbers; the proof compares no more than their shapes.

It finds out that they are random by drawing twice: many are possible.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import Fixed, cases, sizes
from layouts.cases_elementwise import between, numbers


def of_shape(draw: np.random.RandomState) -> Fixed:
    return Fixed(np.asarray(sizes(draw, draw.randint(1, 4)), np.int32))


@cases("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
def drawn(draw: np.random.RandomState) -> dict[str, Any]:
    return {"shape": of_shape(draw), "dtype": tf.float64}


@cases("RandomUniformInt")
def integers(draw: np.random.RandomState) -> dict[str, Any]:
    low, high = Fixed(np.asarray(0, np.int32)), Fixed(np.asarray(9973, np.int32))
    return {"shape": of_shape(draw), "minval": low, "maxval": high}


@cases("RandomGamma")
def gamma(draw: np.random.RandomState) -> dict[str, Any]:
    return {"shape": of_shape(draw), "alpha": parameters(draw)}


@cases("RandomPoissonV2")
def poisson(draw: np.random.RandomState) -> dict[str, Any]:
    rate = np.asarray(parameters(draw), np.int32)  # Kernels never come back from NaN.
    return {"shape": of_shape(draw), "rate": rate}


def parameters(draw: np.random.RandomState) -> np.ndarray:
    return between(draw, 1e6, 1e7, sizes(draw, draw.randint(3)))


@cases("Multinomial")
def classes(draw: np.random.RandomState) -> dict[str, Any]:
    return {
        "logits": numbers(draw, [*sizes(draw, 1), 5]),
        "num_samples": Fixed(int(draw.randint(60, 80))),
    }
