"""Operations entry by entry: with broadcasting, of operands of one shape, and of channels."""

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


@cases("Abs", "Sign", "Square", "Neg", "Round")
def any_number(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": numbers(draw, shape(draw), one_of(draw, "ffi"))}


@cases("Exp", "Expm1", "Sin", "Cos", "Sinh", "Cosh", "Tanh", "Sigmoid", "Square", "Neg")
def real_or_complex(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": numbers(draw, shape(draw), one_of(draw, "fc"))}


@cases("Floor", "Ceil", "Rint", "Tan", "Atan", "Asinh", "Erf", "Erfc", "IsFinite", "IsInf")
@cases("IsNan", "BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1")
@cases("Dawsn", "FresnelCos", "FresnelSin")
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


@cases("Invert", "PopulationCount")
def integers(draw: np.random.RandomState) -> dict[str, Any]:
    return {"x": numbers(draw, shape(draw), "i")}


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


@cases("AddV2", "Add", "Sub", "Mul", "SquaredDifference")
def arithmetic(draw: np.random.RandomState) -> dict[str, Any]:
    kind = one_of(draw, "ffic")
    x, y = (numbers(draw, size, kind) for size in shapes(draw, 2))
    return {"x": x, "y": y}


@cases("Add")
def join_words(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = (words(draw, size) for size in shapes(draw, 2))
    return {"x": x, "y": y}


@cases("MulNoNan", "DivNoNan", "Xlogy", "Xdivy")
def around_zero(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = shapes(draw, 2)
    zeros = numbers(draw, y, "b")
    return {"x": numbers(draw, x), "y": np.asarray(between(draw, 0.5, 2, y) * zeros)}


@cases("RealDiv", "Div", "FloorDiv", "FloorMod", "Mod", "TruncateMod", "Pow", "Xlog1py")
@cases("DivNoNan", "Xdivy", "Xlogy", "MulNoNan")
def by_positive(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = shapes(draw, 2)
    return {"x": between(draw, 0.2, 3, x), "y": between(draw, 0.3, 2, y)}


@cases("Div", "FloorDiv", "TruncateDiv", "FloorMod", "Mod", "TruncateMod", "Pow")
def by_integers(draw: np.random.RandomState) -> dict[str, Any]:
    x, y = shapes(draw, 2)
    return {"x": numbers(draw, x, "i"), "y": numbers(draw, y, "i", least=1)}


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


@cases("Select")
def select(draw: np.random.RandomState) -> dict[str, Any]:
    size, kind = shape(draw), one_of(draw, "fib")
    condition = (size, size[:1], [])[draw.randint(3)]
    return {
        "condition": numbers(draw, condition, "b"),
        "x": numbers(draw, size, kind),
        "y": numbers(draw, size, kind),
    }


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
    return {"y": between(draw, 0.2, 2, size), "dy": numbers(draw, size)}


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


@cases("BiasAdd")
def bias_add(draw: np.random.RandomState) -> dict[str, Any]:
    rank = draw.randint(2, 5)
    size, kind = sizes(draw, rank), one_of(draw, "ffi")
    data_format = "NCHW" if rank > 2 and draw.rand() < 0.5 else "NHWC"
    channels = size[1 if data_format == "NCHW" else -1]
    return {
        "value": numbers(draw, size, kind),
        "bias": numbers(draw, [channels], kind),
        "data_format": data_format,
    }


@cases("BiasAddV1")
def bias_add_v1(draw: np.random.RandomState) -> dict[str, Any]:
    size = sizes(draw, draw.randint(2, 4))
    return {"value": numbers(draw, size), "bias": numbers(draw, size[-1:])}


def fake(draw: np.random.RandomState, size: list[int], scale: float = 1.0) -> np.ndarray:
    return np.asarray(numbers(draw, size) * scale, np.float32)


@cases("FakeQuantWithMinMaxArgs")
def fake_quant(draw: np.random.RandomState) -> dict[str, Any]:
    return {"inputs": fake(draw, shape(draw), 5), "min": -4.0, "max": 5.0}


@cases("FakeQuantWithMinMaxArgsGradient")
def fake_quant_gradient(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {"gradients": fake(draw, size), "inputs": fake(draw, size, 5), "min": -4.0, "max": 5.0}


def limits(draw: np.random.RandomState, size: list[int]) -> dict[str, Any]:
    low, high = np.asarray(draw.rand(*size)) - 3, np.asarray(draw.rand(*size)) + 2
    return {"min": np.asarray(low, np.float32), "max": np.asarray(high, np.float32)}


@cases("FakeQuantWithMinMaxVars")
def fake_quant_vars(draw: np.random.RandomState) -> dict[str, Any]:
    return {"inputs": fake(draw, shape(draw), 3), **limits(draw, [])}


@cases("FakeQuantWithMinMaxVarsGradient")
def fake_quant_vars_gradient(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {"gradients": fake(draw, size), "inputs": fake(draw, size, 3), **limits(draw, [])}


@cases("FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_channels(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {"inputs": fake(draw, size, 3), **limits(draw, size[-1:])}


@cases("FakeQuantWithMinMaxVarsPerChannelGradient")
def fake_quant_channels_gradient(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {"gradients": fake(draw, size), "inputs": fake(draw, size, 3), **limits(draw, size[-1:])}


def ranges(draw: np.random.RandomState, size: list[int], by_axis: bool) -> dict[str, Any]:
    """Returns ranges of values, of all of them, or, since TensorFlow 2, of slices of an axis."""
    has_axes = by_axis and not tf.__version__.startswith("1.")
    axis = draw.randint(len(size)) if has_axes and draw.rand() < 0.6 else None
    of = [] if axis is None else [size[axis]]
    made = {"input_min": between(draw, -3, -1, of), "input_max": between(draw, 1, 3, of)}
    return made if axis is None else {**made, "axis": int(axis)}


@cases("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
def quantize(draw: np.random.RandomState) -> dict[str, Any]:
    """Draws a range for slices only where it is not used: newer kernels refuse it otherwise."""
    size, given = shape(draw), bool(draw.rand() < 0.7)
    return {
        "input": numbers(draw, size),
        **ranges(draw, size, by_axis=not given),
        "range_given": given,
    }


@cases("QuantizeAndDequantizeV3")
def quantize_v3(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {
        "input": numbers(draw, size),
        **ranges(draw, size, by_axis=True),
        "num_bits": np.asarray(8, np.int32),
        "range_given": bool(draw.rand() < 0.8),
    }


@cases("QuantizeAndDequantizeV4Grad")
def quantize_grad(draw: np.random.RandomState) -> dict[str, Any]:
    size = shape(draw)
    return {
        "gradients": numbers(draw, size),
        "input": between(draw, -4, 4, size),
        **ranges(draw, size, by_axis=True),
    }
