"""All layers, in one place."""

from examples.nas_search.rematlib.base import Layer
from examples.nas_search.rematlib.containers import ParallelProduct, ParallelSum, Sequential
from examples.nas_search.rematlib.convolutions import (
    Conv2D,
    DepthwiseConv2D,
    MaskedConv2D,
    MaskedDepthwiseConv2D,
)
from examples.nas_search.rematlib.normalization import BatchNorm, MaskedStatelessBatchNorm
from examples.nas_search.rematlib.pooling import AveragePool, GlobalAveragePool, MaxPool
from examples.nas_search.rematlib.simple import (
    ELU,
    DepthPadding,
    Dropout,
    Identity,
    MultiplyByConstant,
    ReLU,
    ReLU6,
    Sigmoid,
    SpaceToDepth,
    SpatialMasking,
    Swish,
    Swish6,
    Zeros,
)
from examples.nas_search.rematlib.switch import Switch, maybe_switch_v2
from examples.nas_search.rematlib.tensors import (
    create_mask,
    get_conv_output_shape,
    merge_shapes_with_broadcast,
    with_data_dependencies,
)

__all__ = (
    "ELU",
    "AveragePool",
    "BatchNorm",
    "Conv2D",
    "DepthPadding",
    "DepthwiseConv2D",
    "Dropout",
    "GlobalAveragePool",
    "Identity",
    "Layer",
    "MaskedConv2D",
    "MaskedDepthwiseConv2D",
    "MaskedStatelessBatchNorm",
    "MaxPool",
    "MultiplyByConstant",
    "ParallelProduct",
    "ParallelSum",
    "ReLU",
    "ReLU6",
    "Sequential",
    "Sigmoid",
    "SpaceToDepth",
    "SpatialMasking",
    "Swish",
    "Swish6",
    "Switch",
    "Zeros",
    "create_mask",
    "get_conv_output_shape",
    "maybe_switch_v2",
    "merge_shapes_with_broadcast",
    "with_data_dependencies",
)
