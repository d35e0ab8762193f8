"""Pooling and its gradients."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import Fixed, cases

Arguments = Dict[str, Any]


def windows(draw: np.random.RandomState, spatial: int = 2) -> Arguments:
    """Draws windows, strides, and padding."""
    ksize, strides = draw.randint(1, 4, spatial), draw.randint(1, 3, spatial)
    return {
        "ksize": [1, *(int(size) for size in ksize), 1],
        "strides": [1, *(int(size) for size in strides), 1],
        "padding": str(draw.choice(["SAME", "VALID"])),
    }


def images(draw: np.random.RandomState, spatial: int = 2, dtype: Any = np.float64) -> np.ndarray:
    """Draws images into which all windows fit."""
    shape = [draw.choice([1, 2, 3, 4, 6]), *draw.randint(3, 6, spatial), draw.randint(1, 4)]
    return draw.randn(*shape).astype(dtype)


def pooled(name: str, arguments: Arguments) -> Any:
    """Returns what pooling makes: an array, or several."""
    with tf.Graph().as_default(), tf.Session() as session:
        given = {
            key: tf.constant(value) if isinstance(value, np.ndarray) else value
            for key, value in arguments.items()
        }
        return session.run(getattr(tf.raw_ops, name)(**given))


def noise(draw: np.random.RandomState, like: np.ndarray) -> np.ndarray:
    return draw.randn(*like.shape).astype(like.dtype)


@cases("MaxPool")
def largest(draw: np.random.RandomState) -> Arguments:
    arguments = {"input": images(draw), **windows(draw)}
    if draw.rand() < 0.2:  # Over channels.
        size = arguments["input"].shape[-1]
        over = [1, 1, 1, size]
        arguments.update(ksize=over, strides=over, padding="VALID")
        arguments["input"] = arguments["input"].astype(np.float32)
    return arguments


@cases("MaxPoolV2")
def largest_of_given_windows(draw: np.random.RandomState) -> Arguments:
    return with_given_windows({"input": images(draw), **windows(draw)})


def with_given_windows(arguments: Arguments) -> Arguments:
    """Makes windows and strides inputs, which they are in newer types."""
    given = {name: Fixed(np.array(arguments[name], np.int32)) for name in ("ksize", "strides")}
    return {**arguments, **given}


@cases("MaxPool3D", "AvgPool3D")
def solid(draw: np.random.RandomState) -> Arguments:
    return {"input": images(draw, 3, np.float32), **windows(draw, 3)}


@cases("AvgPool")
def average(draw: np.random.RandomState) -> Arguments:
    return {"value": images(draw), **windows(draw)}


@cases("MaxPoolGrad")
def largest_gradient(draw: np.random.RandomState) -> Arguments:
    image, own = images(draw), windows(draw)
    out = pooled("MaxPool", {"input": image, **own})
    return {"orig_input": image, "orig_output": out, "grad": noise(draw, out), **own}


@cases("MaxPoolGradV2")
def largest_gradient_of_given_windows(draw: np.random.RandomState) -> Arguments:
    return with_given_windows(largest_gradient(draw))


@cases("MaxPoolGradGrad")
def largest_second_gradient(draw: np.random.RandomState) -> Arguments:
    arguments = largest_gradient(draw)
    return {**arguments, "grad": noise(draw, arguments["orig_input"])}


@cases("MaxPoolGradGradV2")
def largest_second_gradient_of_given_windows(draw: np.random.RandomState) -> Arguments:
    return with_given_windows(largest_second_gradient(draw))


@cases("MaxPool3DGrad")
def solid_largest_gradient(draw: np.random.RandomState) -> Arguments:
    image, own = images(draw, 3, np.float32), windows(draw, 3)
    out = pooled("MaxPool3D", {"input": image, **own})
    return {"orig_input": image, "orig_output": out, "grad": noise(draw, out), **own}


@cases("MaxPoolWithArgmax")
def largest_with_places(draw: np.random.RandomState) -> Arguments:
    return {
        "input": images(draw, dtype=np.float32),
        **windows(draw),
        "include_batch_in_index": bool(draw.rand() < 0.3),
    }


@cases("MaxPool3DGradGrad")
def solid_largest_second_gradient(draw: np.random.RandomState) -> Arguments:
    arguments = solid_largest_gradient(draw)
    return {**arguments, "grad": noise(draw, arguments["orig_input"])}


@cases("MaxPoolGradWithArgmax")
def largest_gradient_with_places(draw: np.random.RandomState) -> Arguments:
    arguments = largest_with_places(draw)
    out, places = pooled("MaxPoolWithArgmax", arguments)
    return {**arguments, "grad": noise(draw, out), "argmax": places}


@cases("FractionalMaxPoolGrad")
def fractional_largest_gradient(draw: np.random.RandomState) -> Arguments:
    image, overlapping = images(draw), bool(draw.randint(2))
    own = {"pooling_ratio": [1.0, 1.5, 1.25, 1.0], "overlapping": overlapping}
    out, *regions = pooled("FractionalMaxPool", {"value": image, **own})
    names = ("row_pooling_sequence", "col_pooling_sequence")
    return {
        "orig_input": image,
        "orig_output": out,
        "out_backprop": noise(draw, out),
        **dict(zip(names, map(Fixed, regions))),
        "overlapping": overlapping,
    }


@cases("FractionalAvgPoolGrad")
def fractional_average_gradient(draw: np.random.RandomState) -> Arguments:
    image, overlapping = images(draw), bool(draw.randint(2))
    own = {"pooling_ratio": [1.0, 1.5, 1.25, 1.0], "overlapping": overlapping}
    out, *regions = pooled("FractionalAvgPool", {"value": image, **own})
    names = ("row_pooling_sequence", "col_pooling_sequence")
    return {
        "orig_input_tensor_shape": Fixed(np.array(image.shape, np.int64)),
        "out_backprop": noise(draw, out),
        **dict(zip(names, map(Fixed, regions))),
        "overlapping": overlapping,
    }


@cases("AvgPoolGrad")
def average_gradient(draw: np.random.RandomState) -> Arguments:
    image, own = images(draw), windows(draw)
    out = pooled("AvgPool", {"value": image, **own})
    shape = Fixed(np.array(image.shape, np.int32))
    return {"orig_input_shape": shape, "grad": noise(draw, out), **own}


@cases("AvgPool3DGrad")
def solid_average_gradient(draw: np.random.RandomState) -> Arguments:
    image, own = images(draw, 3, np.float32), windows(draw, 3)
    out = pooled("AvgPool3D", {"input": image, **own})
    shape = Fixed(np.array(image.shape, np.int32))
    return {"orig_input_shape": shape, "grad": noise(draw, out), **own}
