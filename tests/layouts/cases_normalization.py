"""Normalization kernels; of batch norm, with moments that are given: those of training differ."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from layouts.cases import cases, sizes

Arguments = Dict[str, Any]


def normal(draw: np.random.RandomState, *shape: int) -> np.ndarray:
    return draw.randn(*shape).astype(np.float32)


def moments(draw: np.random.RandomState, channels: int) -> Arguments:
    mean, variance = normal(draw, channels), 0.5 + draw.rand(channels)
    return {"mean": mean, "variance": variance.astype(np.float32)}


@cases("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(draw: np.random.RandomState) -> Arguments:
    shape = sizes(draw, 4)
    return {
        "x": normal(draw, *shape),
        "scale": normal(draw, shape[-1]),
        "offset": normal(draw, shape[-1]),
        **moments(draw, shape[-1]),
        "epsilon": float(draw.choice([1e-4, 1e-2])),
        "is_training": False,
    }


@cases("FusedBatchNormGrad", "FusedBatchNormGradV2")
def batch_norm_gradient(draw: np.random.RandomState) -> Arguments:
    shape = sizes(draw, 4)
    given = moments(draw, shape[-1])
    return {
        "y_backprop": normal(draw, *shape),
        "x": normal(draw, *shape),
        "scale": normal(draw, shape[-1]),
        "reserve_space_1": given["mean"],
        "reserve_space_2": given["variance"],
        "epsilon": float(draw.choice([1e-4, 1e-2])),
        "is_training": False,
    }


@cases("FusedBatchNormGradV3")
def newest_batch_norm_gradient(draw: np.random.RandomState) -> Arguments:
    return {**batch_norm_gradient(draw), "reserve_space_3": np.zeros(0, np.float32)}


def neighbours(draw: np.random.RandomState) -> Arguments:
    """Draws how many channels are normalized together, and how."""
    return {
        "depth_radius": int(draw.randint(1, 4)),
        "bias": float(draw.uniform(0.5, 2)),
        "alpha": float(draw.uniform(0.5, 2)),
        "beta": float(draw.uniform(0.3, 1)),
    }


@cases("LRN")
def local_response(draw: np.random.RandomState) -> Arguments:
    return {"input": normal(draw, *sizes(draw, 4)), **neighbours(draw)}


@cases("LRNGrad")
def local_response_gradient(draw: np.random.RandomState) -> Arguments:
    shape = sizes(draw, 4)
    names = ("input_grads", "input_image", "output_image")
    return {**{name: normal(draw, *shape) for name in names}, **neighbours(draw)}
