"""Operations entry by entry of several operands: with broadcasting, or of one shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import Fixed, cases, sizes
from layouts.cases_elementwise import between, numbers, one_of, shape, shapes, words


@cases("AddV2", "Add", "Sub", "Mul", "SquaredDifference")
def arithmetic(draw: np.random.RandomState) -> dict[str, Any]:
    kind = one_of(draw, "ffic")
    x, y = (numbers(draw, size, kind) for size in shapes(draw, 2))
    return {"x": x, "y": y}


@cases("Add")
def join_words(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = (words(draw, size) for size in shapes(draw, 2))
    return {"x": x, "y": y}


@cases("MulNoNan", "RealDiv", "Div", "DivNoNan", "Xlogy", "Xdivy")
def around_zero(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = shapes(draw, 2)
    zeros = numbers(draw, y, "b")
    return {"x": numbers(draw, x), "y": np.asarray(between(draw, 0.5, 2, y) * zeros)}


@cases("RealDiv", "Div", "FloorDiv", "FloorMod", "Mod", "TruncateMod", "Pow", "Xlog1py")
@cases("DivNoNan", "Xdivy", "Xlogy", "MulNoNan")
def by_positive(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = shapes(draw, 2)
    return {"x": between(draw, 0.2, 3, x), "y": between(draw, 0.3, 2, y)}


@cases("RealDiv", "Div")
def by_constant(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = shapes(draw, 2)
    low = draw.choice([0, 1])
    divisors = np.asarray(draw.randint(low, 4, y), np.float64)
    return {"x": numbers(draw, x), "y": Fixed(divisors)}


@cases("Div", "FloorDiv", "TruncateDiv", "FloorMod", "Mod", "TruncateMod", "Pow")
def by_integers(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = shapes(draw, 2)
    divisors = numbers(draw, y, "i", least=2)
    return {"x": np.asarray(draw.randint(-20, 20, x), np.int32), "y": divisors}


@cases("Maximum", "Minimum", "Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual")
def compared(draw: np.random.RandomState) -> dict[str, Any]:
    kind = one_of(draw, "fi")
    x, y = (np.round(numbers(draw, size, kind)) for size in shapes(draw, 2))
    return {"x": np.asarray(x), "y": np.asarray(y)}


@cases("Equal", "NotEqual")
def compared_loosely(draw: np.random.RandomState) -> dict[str, Any]:
    kind = one_of(draw, "ib")
    x, y = shapes(draw, 2)
    return {
        "x": numbers(draw, x, kind),
        "y": numbers(draw, y, kind),
        "incompatible_shape_error": False,
    }


@cases("LogicalAnd", "LogicalOr")
def logic(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = (numbers(draw, size, "b") for size in shapes(draw, 2))
    return {"x": x, "y": y}


@cases("BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")
def bits(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = (numbers(draw, size, "i", least=0) for size in shapes(draw, 2))
    return {"x": x, "y": y}


@cases("Atan2")
def atan2(draw: np.random.RandomState) -> dict[str, Any]:
    y, x = (numbers(draw, size) for size in shapes(draw, 2))
    return {"y": y, "x": x}


@cases("NextAfter")
def next_after(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = (numbers(draw, size) for size in shapes(draw, 2))
    return {"x1": x, "x2": y}


@cases("Complex")
def complex_of(draw: np.random.RandomState) -> dict[str, Any]:
    real, imaginary = (numbers(draw, size) for size in shapes(draw, 2))
    return {"real": real, "imag": imaginary, "Tout": tf.complex128}


@cases("Igamma", "Igammac", "IgammaGradA", "Polygamma")
def gamma(draw: np.random.RandomState) -> dict[str, Any]:
    a, x = (between(draw, 1, 3, size) for size in shapes(draw, 2))
    return {"a": np.asarray(np.round(a)), "x": x}


@cases("Zeta")
def zeta(draw: np.random.RandomState) -> dict[str, Any]:
    x, q = (between(draw, 1.5, 3, size) for size in shapes(draw, 2))
    return {"x": x, "q": q}


@cases("RandomGammaGrad")
def gamma_grad(draw: np.random.RandomState) -> dict[str, Any]:
    alpha, sample = (between(draw, 0.5, 3, size) for size in shapes(draw, 2))
    return {"alpha": alpha, "sample": sample}


@cases("SelectV2")
def select_v2(draw: np.random.RandomState) -> dict[str, Any]:
    kind = one_of(draw, "fib")
    condition, t, e = shapes(draw, 3)
    return {
        "condition": numbers(draw, condition, "b"),
        "t": numbers(draw, t, kind),
        "e": numbers(draw, e, kind),
    }


def selected(draw: np.random.RandomState, size: list[int], condition: list[int]) -> dict[str, Any]:
    kind = one_of(draw, "fib")
    return {
        "condition": numbers(draw, condition, "b"),
        "x": numbers(draw, size, kind),
        "y": numbers(draw, size, kind),
    }


@cases("Select")
def select(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return selected(draw, size, size if draw.rand() < 0.7 else [])


@cases("Select")
def select_by_vector(draw: np.random.RandomState) -> dict[str, Any]:
    """Draws a condition along the first axis, which may be as long as the last one."""
    size = sizes(draw, draw.randint(2, 4))
    if draw.rand() < 0.5:
        size[-1] = size[0]
    return selected(draw, size, size[:1])


@cases("AddN")
def add_n(draw: np.random.RandomState) -> dict[str, Any]:
    size, kind = shape(draw), one_of(draw, "ffi")
    return {"inputs": [numbers(draw, size, kind) for _ in range(draw.randint(1, 4))]}


@cases("AccumulateNV2")
def accumulate_n(draw: np.random.RandomState) -> dict[str, Any]:
    return {**add_n(draw), "shape": None}


@cases("ApproximateEqual")
def approximate(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {"x": numbers(draw, size), "y": numbers(draw, size), "tolerance": 0.5}


@cases("ReluGrad", "Relu6Grad", "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad")
def of_features(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {"gradients": numbers(draw, size), "features": numbers(draw, size) * 4}


@cases("EluGrad", "SeluGrad")
def of_outputs(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {"gradients": numbers(draw, size), "outputs": numbers(draw, size)}


@cases("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad")
def of_results(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    results = np.round(between(draw, 0, 2, size), 1)
    return {"y": np.asarray(results), "dy": numbers(draw, size)}


@cases("Betainc")
def betainc(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    a, b, x = (size if draw.rand() < 0.7 else [] for _ in range(3))
    return {
        "a": between(draw, 0.5, 3, a),
        "b": between(draw, 0.5, 3, b),
        "x": between(draw, 0.1, 0.9, x),
    }


@cases("ClipByValue")
def clip(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    low, high = (size if draw.rand() < 0.4 else [] for _ in range(2))
    return {
        "t": between(draw, -3, 3, size),
        "clip_value_min": between(draw, -2, 0, low),
        "clip_value_max": between(draw, 0, 2, high),
    }
