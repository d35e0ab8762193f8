"""Operations entry by entry with parameters, which may be those of channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import cases, sizes
from layouts.cases_elementwise import between, numbers, one_of, shape


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
    shape = [] if axis is None else [size[axis]]
    made = {"input_min": between(draw, -3, -1, shape), "input_max": between(draw, 1, 3, shape)}
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
