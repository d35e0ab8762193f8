"""Elementwise operations: with broadcasting, or with operands of one shape."""

from __future__ import annotations

from typing import Sequence

import tensorflow.compat.v1 as tf

from replicate.layouts import shapes
from replicate.layouts.dims import Dim
from replicate.layouts.layout import WHOLE, Demand, Layout, Shard, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules import partials

UNARY = (
    "Abs", "Neg", "Sign", "Square", "Sqrt", "Rsqrt", "Exp", "Expm1", "Log", "Log1p", "Reciprocal",
    "Inv", "Floor", "Ceil", "Round", "Rint", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh",
    "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Sigmoid", "Softplus", "Softsign", "Relu", "Relu6",
    "LeakyRelu", "Elu", "Selu", "FakeQuantWithMinMaxArgs", "Erf", "Erfc", "Erfinv", "Ndtri",
    "Lgamma", "Digamma", "Dawsn", "Expint", "FresnelCos", "FresnelSin", "Spence", "BesselI0",
    "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1", "BesselK0", "BesselK0e",
    "BesselK1", "BesselK1e", "BesselY0", "BesselY1", "IsFinite", "IsInf", "IsNan", "LogicalNot",
    "Invert", "PopulationCount", "Bucketize", "Real", "Imag", "Conj", "Angle", "ComplexAbs", "Cast",
    "ZerosLike", "OnesLike", "Identity", "StopGradient", "PreventGradient", "Snapshot",
    "DebugGradientIdentity", "CheckNumerics", "CheckNumericsV2", "AsString", "DecodeBase64",
    "EncodeBase64", "DecodeCompressed", "DecodeJSONExample", "StringLength", "StringLower",
    "StringUpper", "StringStrip", "StringToHashBucket", "StringToHashBucketFast",
    "StringToHashBucketStrong", "StringToNumber", "StaticRegexFullMatch", "StaticRegexReplace",
    "UnicodeScript", "UnicodeTranscode",
)  # fmt: skip
# Kernels refuse operands of another shape than the first, even with one entry, except scalars.
ALIKE = (
    "AddN", "ClipByValue", "Betainc", "ApproximateEqual", "ReluGrad", "Relu6Grad", "LeakyReluGrad",
    "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad", "TanhGrad", "SigmoidGrad", "SqrtGrad",
    "RsqrtGrad", "ReciprocalGrad", "InvGrad", "FakeQuantWithMinMaxArgsGradient", "StringJoin",
    "RegexFullMatch", "RegexReplace",
)  # fmt: skip
BROADCAST = (
    "Add", "AddV2", "Sub", "Mul", "MulNoNan", "RealDiv", "Div", "DivNoNan", "FloorDiv",
    "TruncateDiv", "FloorMod", "Mod", "TruncateMod", "Pow", "Xdivy", "Xlogy", "Xlog1py", "Maximum",
    "Minimum", "SquaredDifference", "Atan2", "NextAfter", "Complex", "LogicalAnd", "LogicalOr",
    "BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift", "Less", "LessEqual",
    "Greater", "GreaterEqual", "SelectV2", "Igamma", "Igammac", "IgammaGradA", "Polygamma", "Zeta",
    "RandomGammaGrad",
)  # fmt: skip

shapes.elementwise(*UNARY, *BROADCAST, "Equal", "NotEqual", "EnsureShape", "Substr")
shapes.of_one_shape(*ALIKE, "Select", "AccumulateNV2")


@rule(*BROADCAST)
def broadcast(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows, on the axis with which the axis of rows is aligned."""
    if not any(isinstance(layout, Shard) for layout in layouts):
        return partials.keep(op, layouts)
    found = aligned(op, layouts)
    if found is None:
        return None
    place, wanted = found
    ranks = [len(op.dims(index) or ()) for index in range(len(layouts))]
    return Strategy(wanted, (Shard(max(ranks) + place),))


def aligned(op: Op, layouts: Sequence[Layout]) -> tuple[int, tuple[Demand, ...]] | None:
    """Returns the axis of rows of operands that are broadcast, and the demand of each.

    Axes are aligned at the last one, and counted from there. The largest operand that has rows
    determines the axis. An operand with a single entry there is the same for all rows, and whole.
    At least one operand has rows.
    """
    known = [op.dims(index) for index in range(len(layouts))]
    given = [shape for shape in known if shape is not None]
    if len(given) < len(layouts):
        return None
    place, size = _largest(given, layouts)
    wanted: list[Demand] = []
    for shape, layout in zip(given, layouts):
        axis = place + len(shape)
        if axis < 0:
            wanted.append(WHOLE)  # It has no such axis, and is repeated for all rows.
        elif layout == Shard(axis):
            wanted.append(layout)
        elif shape[axis] == 1:
            wanted.append(WHOLE)
        elif isinstance(shape[axis], int) and shape[axis] != size:
            return None  # The sizes may be equal by chance, or a single row is broadcast to it.
        else:
            wanted.append(Shard(axis))
    return place, tuple(wanted)


def _largest(given: Sequence[tuple[Dim, ...]], layouts: Sequence[Layout]) -> tuple[int, Dim]:
    """Returns the position and the size of the axis of rows of the largest operand with rows.

    The largest is the one with the most axes that have several entries.
    """
    num_axes = {
        index: sum(size != 1 for size in given[index])
        for index, layout in enumerate(layouts)
        if isinstance(layout, Shard)
    }
    first = max(num_axes, key=lambda index: num_axes[index])
    layout = layouts[first]
    assert isinstance(layout, Shard)
    return layout.axis - len(given[first]), given[first][layout.axis]


@rule(*UNARY, *ALIKE)
def alike(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows where they are; all operands except scalars have one shape."""
    shards = [layout for layout in layouts if isinstance(layout, Shard)]
    if not shards:
        return partials.keep(op, layouts)
    wanted: list[Demand] = []
    for index, layout in enumerate(layouts):
        rank = op.rank(index)
        if layout == shards[0] or rank == 0:
            wanted.append(WHOLE if rank == 0 else layout)
        elif rank is None or rank <= shards[0].axis:
            return None
        else:
            wanted.append(shards[0])
    return Strategy(tuple(wanted), (shards[0],))


@rule("Equal", "NotEqual")
def equal(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Compares like other operations, unless incompatible shapes are to give a single `False`."""
    if not op.attr("incompatible_shape_error", True):
        x, y = op.dims(0), op.dims(1)
        if x is None or y is None:
            return None
        if not all(a == b or 1 in (a, b) for a, b in zip(x[::-1], y[::-1])):
            return None
    return broadcast(op, layouts)


@rule("Select")
def select(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of the branches.

    A condition that is a vector is aligned with axis 0, unlike in other operations.
    """
    # From the last, because only the branches are sure to have the axes of the result.
    shards = [layout for layout in layouts[::-1] if isinstance(layout, Shard)]
    if not shards:
        return partials.keep(op, layouts)
    rank, of_condition = op.rank(1), op.rank(0)
    if rank is None or of_condition is None or rank <= shards[0].axis:
        return None
    along = of_condition == rank or (of_condition == 1 and shards[0].axis == 0)
    return Strategy((shards[0] if along else WHOLE, shards[0], shards[0]), (shards[0],))


@rule("EnsureShape", "AccumulateNV2")
def of_given_shape(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows, unless an attribute fixes their number, which is that of the whole batch."""
    strategy = alike(op, layouts)
    if strategy is not None and isinstance(strategy.outputs[0], Shard):
        shape = tf.TensorShape(op.attr("shape"))
        if shape.rank is not None and shape.as_list()[strategy.outputs[0].axis] is not None:
            return None
    return strategy


@rule("Substr")
def substring(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows if only scalars are broadcast; else TensorFlow 1.15 drops axes of one entry."""
    given, positions = op.dims(0), op.dims(1)
    if given is None or positions not in ((), given):
        return None
    return alike(op, layouts)


@rule("IdentityN")
def identities(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Passes on each input as it is, independent of the others."""
    return Strategy(tuple(layouts), tuple(layouts))


@rule("DecodeCSV", "DecodePaddedRaw")
def of_first(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of the first input, whose entries are decoded; the others are parameters."""
    if not isinstance(layouts[0], Shard):
        return None
    others = (WHOLE,) * (len(layouts) - 1)
    return Strategy((layouts[0], *others), (layouts[0],) * len(op.outputs))
