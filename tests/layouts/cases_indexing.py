"""Operations that take entries by their indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

import versions
from layouts.cases import Fixed, Made, cases, sizes


def integers(draw: np.random.RandomState, high: int, shape: list[int]) -> np.ndarray:
    """Draws indices of one of both types."""
    return np.asarray(draw.randint(0, high, shape), draw.choice(["int32", "int64"]))


def shapes(draw: np.random.RandomState, low: int, high: int) -> list[int]:
    """Draws a shape whose rank is from `low` to `high`."""
    return sizes(draw, draw.randint(low, high + 1))


@cases("Gather")
def gather_first(draw: np.random.RandomState) -> dict[str, Any]:
    params = shapes(draw, 1, 3)
    return {"params": draw.randn(*params), "indices": integers(draw, params[0], shapes(draw, 0, 3))}


@cases("GatherV2")
def gather_of_batches(draw: np.random.RandomState) -> dict[str, Any]:
    params = shapes(draw, 2, 4)
    batch = draw.randint(1, len(params))
    axis = draw.randint(batch, len(params))
    # TensorFlow 1 refuses one index for each of the batch.
    indices = params[:batch] + shapes(draw, int(versions.IS_1), 2)
    return {
        "params": draw.randn(*params),
        "indices": integers(draw, params[axis], indices),
        "axis": Fixed(axis - len(params) * draw.randint(2)),
        "batch_dims": int(batch - len(indices) * (batch < len(indices) and draw.randint(2))),
    }


@cases("GatherV2")
def gather(draw: np.random.RandomState) -> dict[str, Any]:
    params = shapes(draw, 1, 4)
    axis = draw.randint(len(params))
    return {
        "params": draw.randn(*params),
        "indices": integers(draw, params[axis], shapes(draw, 0, 2)),
        "axis": Fixed(axis - len(params) * draw.randint(2)),
    }


def coordinates(draw: np.random.RandomState, shape: list[int], many: int) -> np.ndarray:
    """Draws indices of the first axes of `shape`, `many` of them each."""
    places = shapes(draw, 0, 2)
    made = [draw.randint(0, size, places) for size in shape[:many]]
    if not made:
        return np.zeros([*places, 0], np.int32)
    return np.stack(made, -1).astype(draw.choice(["int32", "int64"]))


@cases("GatherNd")
def gather_nd(draw: np.random.RandomState) -> dict[str, Any]:
    params = shapes(draw, 1, 3)
    indices = coordinates(draw, params, draw.randint(0, len(params) + 1))
    return {"params": draw.randn(*params), "indices": indices}


@cases("UnravelIndex")
def unravel_index(draw: np.random.RandomState) -> dict[str, Any]:
    whole = shapes(draw, 1, 3)
    indices = integers(draw, int(np.prod(whole)), shapes(draw, 0, 1))
    indices = np.asarray(indices)
    return {"indices": indices, "dims": Fixed(np.array(whole, indices.dtype))}


def variable(value: np.ndarray) -> Made:
    return Made(lambda: tf.Variable(value, use_resource=True, name="of_a_case").handle)


@cases("ResourceGather")
def resource_gather(draw: np.random.RandomState) -> dict[str, Any]:
    drawn = gather_first(draw)
    return {"resource": variable(drawn.pop("params")), "dtype": tf.float64, **drawn}


@cases("ResourceGather")
def resource_gather_of_batches(draw: np.random.RandomState) -> dict[str, Any]:
    params = shapes(draw, 2, 4)
    batch = draw.randint(1, len(params))
    indices = integers(draw, params[batch], params[:batch] + shapes(draw, 0, 2))
    return {
        "resource": variable(draw.randn(*params)),
        "indices": indices,
        "dtype": tf.float64,
        "batch_dims": int(batch),
    }


@cases("ResourceGatherNd")
def resource_gather_nd(draw: np.random.RandomState) -> dict[str, Any]:
    drawn = gather_nd(draw)
    return {"resource": variable(drawn.pop("params")), "dtype": tf.float64, **drawn}


@cases("OneHot")
def one_hot(draw: np.random.RandomState) -> dict[str, Any]:
    indices, depth = shapes(draw, draw.randint(2), 3), draw.randint(1, 7)
    return {
        "indices": np.asarray(integers(draw, depth + 2, indices) - 1),
        "depth": Fixed(depth),
        "on_value": np.array(draw.randn()),
        "off_value": np.array(draw.randn()),
        "axis": int(draw.randint(-1, len(indices) + 1)),
    }


@cases("Roll")
def roll(draw: np.random.RandomState) -> dict[str, Any]:
    shape = shapes(draw, 1, 4)
    many = [[], [1], [2]][draw.randint(3)]
    return {
        "input": draw.randn(*shape),
        "shift": Fixed(np.asarray(draw.randint(-5, 6, many), np.int32)),
        "axis": Fixed(np.asarray(draw.randint(-len(shape), len(shape), many), np.int32)),
    }
