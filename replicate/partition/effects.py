"""Decides whether running an operation has side effects, and whether it may fail."""

from __future__ import annotations

from typing import Any, Sequence

from replicate.compat import graph as graph_lib
from replicate.compat import op_types

# Operations that hold variables.
HOLDERS = frozenset(["VarHandleOp", "VariableV2", "Variable"])

# Operations that read values of a variable when they run.
READ_NOW = frozenset(["ReadVariableOp", "ResourceGather", "ResourceGatherNd"])

# Stateful, but running them once more changes nothing.
READS = HOLDERS | READ_NOW | {"VariableShape", "VarIsInitializedOp", "IsVariableInitialized"}

# Operations that have no state, and fail only for shapes or sizes that do not fit.
_TOTAL = frozenset(
    [
        "Abs",
        "Add",
        "AddN",
        "AddV2",
        "AvgPool",
        "AvgPoolGrad",
        "BatchMatMul",
        "BatchMatMulV2",
        "BiasAdd",
        "BiasAddGrad",
        "BroadcastTo",
        "BroadcastGradientArgs",
        "Cast",
        "ConcatV2",
        "Const",
        "Conv2D",
        "Conv2DBackpropFilter",
        "Conv2DBackpropInput",
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropFilter",
        "DepthwiseConv2dNativeBackpropInput",
        "Div",
        "DivNoNan",
        "Elu",
        "EluGrad",
        "Equal",
        "Erf",
        "Exp",
        "ExpandDims",
        "Fill",
        "FusedBatchNormGradV3",
        "FusedBatchNormV3",
        "Greater",
        "GreaterEqual",
        "Identity",
        "L2Loss",
        "LeakyRelu",
        "LeakyReluGrad",
        "Less",
        "LessEqual",
        "Log",
        "LogicalAnd",
        "LogicalNot",
        "LogicalOr",
        "MatMul",
        "Max",
        "MaxPool",
        "MaxPoolGrad",
        "Maximum",
        "Mean",
        "Min",
        "Minimum",
        "Mul",
        "Neg",
        "NoOp",
        "NotEqual",
        "OnesLike",
        "Pack",
        "Pad",
        "PreventGradient",
        "Prod",
        "Rank",
        "RealDiv",
        "Reciprocal",
        "Relu",
        "Relu6",
        "Relu6Grad",
        "ReluGrad",
        "Reshape",
        "Rsqrt",
        "RsqrtGrad",
        "Select",
        "SelectV2",
        "Shape",
        "ShapeN",
        "Sigmoid",
        "SigmoidGrad",
        "Sign",
        "Size",
        "Slice",
        "Softmax",
        "Softplus",
        "SoftplusGrad",
        "Sqrt",
        "SqrtGrad",
        "Square",
        "SquaredDifference",
        "Squeeze",
        "StopGradient",
        "StridedSlice",
        "StridedSliceGrad",
        "Sub",
        "Sum",
        "Tanh",
        "TanhGrad",
        "Tile",
        "Transpose",
        "ZerosLike",
    ]
)


def acts(operation: Any) -> bool:
    """Whether an operation changes state, draws random numbers or has to be fed."""
    name = operation.type
    return name == "Placeholder" or (name not in READS and op_types.is_stateful(operation))


def is_inside(operation: Any) -> bool:
    """Whether an operation is in a loop or branch, or acts through a function.

    Waiting for such an operation, if it is possible, does not mean waiting for all other actions in
    there.
    """
    if graph_lib.is_in_control_flow(operation):
        return True
    return op_types.calls_functions(operation) and acts(operation)


def leaving(operations: Sequence[Any]) -> list[Any]:
    """Returns those that are outside, but take a tensor of one that is inside; see `is_inside`."""
    inside = {one for one in operations if is_inside(one)}
    if not inside:
        return []  # As in most graphs.
    return [
        one
        for one in operations
        if one not in inside and any(tensor.op in inside for tensor in one.inputs)
    ]


def may_fail(operation: Any) -> bool:
    """Whether an operation may fail for some values of its inputs."""
    name = operation.type
    if name in ("Div", "FloorDiv", "Pow"):
        return bool(operation.outputs[0].dtype.is_integer)  # Division by 0; a negative power.
    return name not in _TOTAL and name not in READS
