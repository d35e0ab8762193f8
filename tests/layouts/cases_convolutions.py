"""Convolutions of all kinds, and their gradients.

All use float64 with channels last: only for these, every version has kernels on CPUs.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import Fixed, cases, sizes

Arguments = Dict[str, Any]


def images(draw: np.random.RandomState, spatial: int) -> tuple[list[int], list[int]]:
    """Draws the shape of images and the sizes of windows that fit into them."""
    window = draw.randint(1, 4, spatial)
    shape = [draw.choice([1, 2, 3, 4, 6]), *(window + draw.randint(4, size=spatial))]
    return [int(size) for size in [*shape, draw.randint(1, 4)]], [int(size) for size in window]


def windows(draw: np.random.RandomState, spatial: int) -> Arguments:
    """Draws strides and padding."""
    strides = [int(draw.randint(1, 3))] * spatial
    return {"strides": [1, *strides, 1], "padding": str(draw.choice(["SAME", "VALID"]))}


def explicit(draw: np.random.RandomState, arguments: Arguments) -> Arguments:
    """Turns every third padding into one that is written out."""
    if draw.randint(3):
        return arguments
    paddings = [0, 0, *(int(size) for size in draw.randint(3, size=4)), 0, 0]
    return {**arguments, "padding": "EXPLICIT", "explicit_paddings": paddings}


def flat(draw: np.random.RandomState) -> Arguments:
    shape, window = images(draw, 2)
    kernel = [*window, shape[-1], draw.randint(1, 4)]
    return {
        "input": draw.randn(*shape),
        "filter": draw.randn(*kernel),
        **explicit(draw, windows(draw, 2)),
    }


@cases("Conv2D")
def conv2d(draw: np.random.RandomState) -> Arguments:
    arguments = flat(draw)
    if draw.rand() < 0.3:
        arguments.update(strides=[1] * 4, dilations=[1, 2, draw.randint(1, 3), 1])
        arguments["input"] = np.tile(arguments["input"], [1, 2, 2, 1])
    return arguments


@cases("Conv3D")
def conv3d(draw: np.random.RandomState) -> Arguments:
    shape, window = images(draw, 3)
    kernel = [*window, shape[-1], draw.randint(1, 3)]
    return {"input": draw.randn(*shape), "filter": draw.randn(*kernel), **windows(draw, 3)}


@cases("Conv")
def conv(draw: np.random.RandomState) -> Arguments:
    arguments = flat(draw) if draw.randint(2) else conv3d(draw)
    leading = draw.randint(3)
    shape = arguments["input"].shape
    arguments["input"] = draw.randn(*sizes(draw, leading), *shape)
    return {**arguments, "batch_dims": 1 + leading}


@cases("DepthwiseConv2dNative")
def depthwise(draw: np.random.RandomState) -> Arguments:
    shape, window = images(draw, 2)
    return {
        "input": draw.randn(*shape),
        "filter": draw.randn(*window, shape[-1], draw.randint(1, 4)),
        **windows(draw, 2),
    }


def made(name: str, arguments: Arguments) -> Sequence[int]:
    """Returns the shape of what a convolution makes."""
    with tf.Graph().as_default():
        given = {
            key: tf.constant(value) if isinstance(value, np.ndarray) else value
            for key, value in arguments.items()
        }
        return getattr(tf.raw_ops, name)(**given).shape.as_list()


def input_gradient(draw: np.random.RandomState, name: str, arguments: Arguments) -> Arguments:
    """Returns the arguments of the gradient of what a convolution takes."""
    image = arguments.pop("input")
    out = made(name, {"input": image, **arguments})
    sizes = np.array(image.shape, np.int32)
    return {**arguments, "input_sizes": Fixed(sizes), "out_backprop": draw.randn(*out)}


def filter_gradient(draw: np.random.RandomState, name: str, arguments: Arguments) -> Arguments:
    """Returns the arguments of the gradient of a convolution's filter."""
    out = made(name, arguments)
    sizes = np.array(arguments.pop("filter").shape, np.int32)
    return {**arguments, "filter_sizes": Fixed(sizes), "out_backprop": draw.randn(*out)}


@cases("Conv2DBackpropInput")
def conv2d_input(draw: np.random.RandomState) -> Arguments:
    arguments = input_gradient(draw, "Conv2D", flat(draw))
    if draw.rand() < 0.2 and not tf.__version__.startswith("1."):
        arguments["input_sizes"] = Fixed(arguments["input_sizes"].array[1:3])
    return arguments


@cases("Conv2DBackpropFilter")
def conv2d_filter(draw: np.random.RandomState) -> Arguments:
    return filter_gradient(draw, "Conv2D", flat(draw))


@cases("Conv3DBackpropInputV2")
def conv3d_input(draw: np.random.RandomState) -> Arguments:
    return input_gradient(draw, "Conv3D", conv3d(draw))


@cases("Conv3DBackpropFilterV2")
def conv3d_filter(draw: np.random.RandomState) -> Arguments:
    return filter_gradient(draw, "Conv3D", conv3d(draw))


@cases("DepthwiseConv2dNativeBackpropInput")
def depthwise_input(draw: np.random.RandomState) -> Arguments:
    return input_gradient(draw, "DepthwiseConv2dNative", depthwise(draw))


@cases("DepthwiseConv2dNativeBackpropFilter")
def depthwise_filter(draw: np.random.RandomState) -> Arguments:
    return filter_gradient(draw, "DepthwiseConv2dNative", depthwise(draw))


@cases("Dilation2D")
def dilation(draw: np.random.RandomState) -> Arguments:
    shape, window = images(draw, 2)
    shape[1:3] = [size + 2 for size in shape[1:3]]  # Such that windows with gaps fit in.
    arguments = {"input": draw.randn(*shape), "filter": draw.randn(*window, shape[-1])}
    return {**arguments, **windows(draw, 2), "rates": [1, *[draw.randint(1, 3)] * 2, 1]}


@cases("Dilation2DBackpropInput", "Dilation2DBackpropFilter")
def dilation_gradient(draw: np.random.RandomState) -> Arguments:
    arguments = dilation(draw)
    with tf.Graph().as_default():
        out = tf.raw_ops.Dilation2D(**arguments).shape.as_list()
    return {**arguments, "out_backprop": draw.randn(*out)}
