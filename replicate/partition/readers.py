"""Finds the operations that read variables when they run.

A write waits for these. A reference variable gives its memory itself, so that whatever computes
with it reads it then.
"""

from __future__ import annotations

from typing import Any, Sequence

from replicate.compat import op_types
from replicate.partition.effects import READ_NOW

# They give values of their own, whatever they are given. Of all others some pass memory on, for
# some values: a sum along no axis, a slice of everything, a stack of one.
_MAKE_NEW = frozenset(
    ["Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "SquaredDifference", "Maximum", "Minimum"]
    + ["Square", "Sqrt", "Rsqrt", "Exp", "Log", "Abs", "Neg", "Tanh", "Sigmoid", "Softmax", "Pow"]
    + ["Relu", "Softplus", "Sign", "L2Loss", "MatMul", "BatchMatMul", "BatchMatMulV2", "Einsum"]
    + ["BiasAdd", "Conv1D", "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Gather", "GatherV2"]
    + ["GatherNd", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Shape", "Size", "Rank"]
    + ["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"]
)


def find(operations: Sequence[Any]) -> list[Any]:
    """Returns the operations that read variables when they run."""
    shared: set[Any] = set()
    found = []
    for operation in operations:
        takes = any(tensor.op in shared for tensor in operation.inputs)
        if op_types.gives_reference(operation) or (takes and operation.type not in _MAKE_NEW):
            shared.add(operation)
        if takes or operation.type in READ_NOW:
            found.append(operation)
    return found
