"""Finds the operations that read variables when they run.

A write has to wait for these. A reference variable returns its memory, so an operation that takes
it reads the variable only when it runs.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import op_types
from replicate.graphs import state
from replicate.partition.effects import READ_NOW

# Operations whose outputs are always new tensors. Others may return the memory of an input in some
# cases: a sum along no axis, a slice of everything, a stack of one tensor.
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


def variables_of(operation: Any) -> set[Any]:
    """Returns the operations that hold the resource variables that an operation takes."""
    handles = (tensor for tensor in operation.inputs if tensor.dtype == tf.resource)
    return set(map(state.source, handles))
