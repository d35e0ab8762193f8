"""What operations do to axis 0 of a tensor, that of rows."""

import tensorflow.compat.v1 as tf

# One value for each of what they take, place by place.
ELEMENTWISE = frozenset(
    [
        "Identity",
        "StopGradient",
        "PreventGradient",
        "Cast",
        "Neg",
        "Square",
        "Sqrt",
        "Rsqrt",
        "Exp",
        "Log",
        "Log1p",
        "Abs",
        "Sign",
        "Tanh",
        "Sigmoid",
        "Relu",
        "Relu6",
        "Elu",
        "Softplus",
        "Softmax",
        "LogSoftmax",
        "Erf",
        "Erfc",
        "Expm1",
        "Lgamma",
        "Digamma",
        "Sin",
        "Cos",
        "Tan",
        "Asin",
        "Acos",
        "Atan",
        "Atan2",
        "Sinh",
        "Cosh",
        "Asinh",
        "Acosh",
        "Atanh",
        "Softsign",
        "Reciprocal",
        "Inv",
        "Floor",
        "Round",
        "Ceil",
        "Rint",
        "Add",
        "AddV2",
        "AddN",
        "Sub",
        "Mul",
        "RealDiv",
        "DivNoNan",
        "Div",
        "FloorDiv",
        "TruncateDiv",
        "FloorMod",
        "Mod",
        "MulNoNan",
        "Xdivy",
        "Xlogy",
        "Xlog1py",
        "Pow",
        "Maximum",
        "Minimum",
        "SquaredDifference",
        "Equal",
        "NotEqual",
        "Less",
        "LessEqual",
        "Greater",
        "GreaterEqual",
        "LogicalAnd",
        "LogicalOr",
        "LogicalNot",
        "Select",
        "SelectV2",
        "ClipByValue",
        "IsFinite",
        "IsInf",
        "IsNan",
        "CheckNumerics",
        "EnsureShape",
        "Snapshot",
        "ZerosLike",
        "OnesLike",
    ]
)
# One row for each row of their first input, where the others are the same for all towers.
BY_ROWS = frozenset(
    [
        "MatMul",
        "BatchMatMul",
        "BatchMatMulV2",
        "BiasAdd",
        "Conv1D",
        "Conv2D",
        "DepthwiseConv2dNative",
        "Conv3D",
        "MaxPool",
        "AvgPool",
        "MaxPool3D",
        "AvgPool3D",
        "LeakyRelu",
        "Selu",
        "ResizeBilinear",
        "OneHot",
        "ArgMax",
        "ArgMin",
        "InTopK",
        "InTopKV2",
        "TopKV2",
        "LRN",
        "L2Normalize",
    ]
)
# Linear, in how much of everything there is.
LINEAR = frozenset(
    ["Identity", "StopGradient", "PreventGradient", "Cast", "Neg", "CheckNumerics", "EnsureShape"]
)
CROSS_ENTROPIES = frozenset(
    ["SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits"]
)
# Numbers for each place of the shape that they take.
DRAWS = frozenset(["RandomUniform", "RandomStandardNormal", "TruncatedNormal"])
# A matrix for each row, if there are more than two axes.
MATRICES = frozenset(["BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"])
# They take what is in a row from other places of it.
MOVES = frozenset(
    ["Tile", "StridedSlice", "Slice", "Pad", "PadV2", "MirrorPad", "Cumsum"]
    + ["ReverseV2", "Split", "SplitV", "Unpack"]
)
SHAPES = frozenset(["Reshape", "ExpandDims", "Squeeze", "Tile", "BroadcastTo", "Transpose"])


def keeps_rows(op):
    """Whether a change of shape leaves axis 0, that of rows, as it is."""
    before, after = op.inputs[0].shape, op.outputs[0].shape
    if not before.rank or not after.rank:
        return False
    if op.type == "Reshape":
        sizes = before.as_list()[0], after.as_list()[0]
        if None not in sizes and sizes[0] == sizes[1]:
            return True
        shape = tf.get_static_value(op.inputs[1])
        if shape is None or not len(shape) or shape[0] != -1:
            return False
        # A row becomes several, in order: `[n, time, width]` to `[-1, width]`.
        whole, part = before[1:].num_elements(), after[1:].num_elements()
        if part and whole is not None:
            return whole % part == 0
        rest = after[1:].as_list()
        return None not in rest and before.as_list()[before.rank - len(rest) :] == rest
    if op.type == "ExpandDims":
        axis = tf.get_static_value(op.inputs[1])
        return axis is not None and axis.item() % after.rank > 0
    return 0 not in [axis % before.rank for axis in op.get_attr("squeeze_dims")] and bool(
        op.get_attr("squeeze_dims")
    )


def is_place_by_place(op, kinds, whole):
    """Whether an operation that takes rows gives a value for each, whatever it takes besides.

    Args:
        op: The operation.
        kinds: Those of its inputs.
        whole: The kind of what no row enters.
    """
    if op.type in CROSS_ENTROPIES:
        return True
    rank = op.outputs[0].shape.rank
    if op.type not in ELEMENTWISE or not rank:
        return False
    ranks = [given.shape.rank for given, kind in zip(op.inputs, kinds) if kind != whole]
    return all(one in (0, rank) for one in ranks)


def leaves_rows(op):
    """Whether an operation that moves what is in rows, one of `MOVES`, leaves these in order."""
    if op.type == "StridedSlice":
        return slices_other_axes(op)
    if op.type == "Unpack":
        axis, rank = op.get_attr("axis"), op.inputs[0].shape.rank
        return axis > 0 or (rank is not None and axis < 0 and axis != -rank)
    # Split takes the axis first.
    value, position = (1, 0) if op.type == "Split" else (0, 2 if op.type == "SplitV" else 1)
    given, rank = tf.get_static_value(op.inputs[position]), op.inputs[value].shape.rank
    if given is None or rank is None:
        return False
    if op.type in ("Split", "SplitV", "Cumsum", "ReverseV2"):
        return rank > 0 and 0 not in [int(axis) % rank for axis in given.reshape([-1])]
    if op.type == "Slice":
        size = tf.get_static_value(op.inputs[2])
        return size is not None and given[0] == 0 and size[0] == -1
    if op.type == "Tile":
        return given[0] == 1
    return not given[0].any()  # The paddings of axis 0.


def joins_other_axes(op):
    """Whether what joins tensors leaves their axis 0 as it is."""
    if op.type == "Pack":
        axis, rank = op.get_attr("axis"), op.outputs[0].shape.rank
    else:
        axis, rank = tf.get_static_value(op.inputs[-1]), op.outputs[0].shape.rank
    return axis is not None and rank is not None and int(axis) % rank != 0


def slices_other_axes(op):
    """Whether a slice takes all rows."""
    masks = {
        name: op.get_attr(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "shrink_axis", "new_axis")
    }
    strides = tf.get_static_value(op.inputs[3])
    if strides is None or not len(strides):
        return False
    if masks["ellipsis"] & 1:
        rank = op.inputs[0].shape.rank
        return rank is not None and rank > len(strides) - 1 and not masks["new_axis"]
    if (masks["shrink_axis"] | masks["new_axis"]) & 1:
        return False
    return bool(masks["begin"] & masks["end"] & 1) and strides[0] == 1


def number_summed(tensor):
    """Returns how many numbers a sum adds up, None if that is not known."""
    op = tensor.op
    # Keras and heads add up a sum once more, which has no axes, before they divide it.
    while op.type in LINEAR or (op.type == "Sum" and op.inputs[0].shape.rank == 0):
        op = op.inputs[0].op
    return op.inputs[0].shape.num_elements() if op.type == "Sum" else None
