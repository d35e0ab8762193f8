"""Operations entry by entry of one operand, and what cases of others are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import cases, sizes


def shape(draw: np.random.RandomState) -> list[int]:
    """Returns the shape of up to three axes."""
    return sizes(draw, draw.randint(1, 4))


def shapes(draw: np.random.RandomState, count: int) -> list[list[int]]:
    """Returns shapes that are broadcast to one: some axes have one entry, or are left out."""
    full = shape(draw)
    made = []
    for _ in range(count):
        own = [1 if draw.rand() < 0.2 else size for size in full]
        made.append(own[draw.randint(len(own) + 1) if draw.rand() < 0.3 else 0 :])
    return made


def numbers(
    draw: np.random.RandomState, size: list[int], kind: str = "f", least: int = -3
) -> np.ndarray:
    """Returns numbers of the normal distribution (f, c), integers (i, u), or truths (b)."""
    if kind == "b":
        return np.asarray(draw.rand(*size) < 0.5)
    if kind in "iu":
        return np.asarray(draw.randint(least, 5, size), np.int32 if kind == "i" else np.uint8)
    if kind == "c":
        return np.asarray(draw.randn(*size) + 1j * draw.randn(*size))
    return np.asarray(draw.randn(*size))


def between(draw: np.random.RandomState, low: float, high: float, size: list[int]) -> np.ndarray:
    return np.asarray(draw.uniform(low, high, size))


def one_of(draw: np.random.RandomState, kinds: str) -> str:
    return str(draw.choice(list(kinds)))


def words(draw: np.random.RandomState, size: list[int]) -> np.ndarray:
    return np.asarray(draw.choice(["", "a1", " b ", "cd", "A"], size)).astype(object)


@cases("Abs", "Sign", "Square", "Neg", "Round", "Invert", "PopulationCount")
def integers(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": numbers(draw, shape(draw), "i")}


@cases("Exp", "Expm1", "Sin", "Cos", "Sinh", "Cosh", "Tanh", "Sigmoid", "Square", "Neg")
def real_or_complex(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": numbers(draw, shape(draw), one_of(draw, "fc"))}


@cases("Abs", "Sign", "Round", "Floor", "Ceil", "Rint", "Tan", "Atan", "Asinh", "Erf", "Erfc")
@cases("IsFinite", "IsInf", "IsNan", "BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0")
@cases("BesselJ1", "Dawsn", "FresnelCos", "FresnelSin")
def real(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": numbers(draw, shape(draw))}


@cases("Sqrt", "Rsqrt", "Log", "Log1p", "Reciprocal", "Inv", "Lgamma", "Digamma", "Spence")
@cases("BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1", "Expint")
def positive(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": between(draw, 0.1, 3, shape(draw))}


@cases("Asin", "Acos", "Atanh", "Erfinv", "Ndtri")
def below_one(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": between(draw, 0.05, 0.95, shape(draw))}


@cases("Acosh")
def above_one(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": between(draw, 1.1, 4, shape(draw))}


@cases("Softplus", "Softsign", "Relu", "Relu6", "LeakyRelu", "Elu", "Selu")
def activation(draw: np.random.RandomState) -> dict[str, Any]:
    return {"features": numbers(draw, shape(draw)) * 4}


@cases("LogicalNot")
def truths(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": numbers(draw, shape(draw), "b")}


@cases("Real", "Imag", "Angle")
def of_complex(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": numbers(draw, shape(draw), "c"), "Tout": tf.float64}


@cases("Conj")
def conjugate(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": numbers(draw, shape(draw), "c")}


@cases("ComplexAbs")
def complex_abs(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": numbers(draw, shape(draw), "c"), "Tout": tf.float64}


@cases("Cast")
def cast(draw: np.random.RandomState) -> dict[str, Any]:
    given = numbers(draw, shape(draw)) * 3
    before = draw.choice([np.float16, np.float32, np.float64, np.int32])
    after = (tf.float64, tf.float32, tf.int32, tf.int64)[draw.randint(4)]
    return {"x": given.astype(before), "DstT": after}


@cases("Cast")
def cast_wider(draw: np.random.RandomState) -> dict[str, Any]:
    kind = one_of(draw, "fc")
    before, after = (np.float32, tf.float64) if kind == "f" else (np.complex64, tf.complex128)
    return {"x": numbers(draw, shape(draw), kind).astype(before), "DstT": after}


@cases("ZerosLike", "OnesLike")
def like(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": numbers(draw, shape(draw), one_of(draw, "ficb"))}


@cases("Identity", "StopGradient", "PreventGradient", "Snapshot", "DebugGradientIdentity")
def same(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": numbers(draw, shape(draw), one_of(draw, "ficub"))}


@cases("IdentityN")
def several_same(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": [numbers(draw, shape(draw), one_of(draw, "ffb")) for _ in range(2)]}


@cases("CheckNumerics", "CheckNumericsV2")
def check_numerics(draw: np.random.RandomState) -> dict[str, Any]:
    return {"tensor": numbers(draw, shape(draw)), "message": "not finite"}


@cases("EnsureShape")
def ensure_shape(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    known = [side if draw.rand() < 0.4 else None for side in size]
    kind = one_of(draw, "fb")
    return {"input": numbers(draw, size, kind), "shape": known}


@cases("Bitcast")
def bitcast(draw: np.random.RandomState) -> dict[str, Any]:
    to = (tf.int64, tf.int32, tf.uint8)[draw.choice([0, 0, 1, 2])]
    return {"input": numbers(draw, shape(draw)), "type": to}


@cases("Bitcast")
def bitcast_wider(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": draw.rand(*shape(draw), 2).astype(np.float32), "type": tf.float64}


@cases("Bucketize")
def bucketize(draw: np.random.RandomState) -> dict[str, Any]:
    return {"input": numbers(draw, shape(draw)), "boundaries": [-1.0, 0.0, 0.5]}
