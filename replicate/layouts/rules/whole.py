"""Types of operations that run once on purpose: those of tensors.

Each list says why, as the end of "It runs once, since ...". Those of variables, input pipelines
and so on are in files of their own.
"""

from __future__ import annotations

from replicate.layouts.rule import whole_on_purpose


def once(reason: str, names: str) -> None:
    """Says of types of operations, whose names are in a text, that they run once, and why."""
    whole_on_purpose(reason, *names.split())


once(
    "it has no input, or none that rows enter",
    "Const Empty HostConst IsTensorFloat32Enabled Placeholder PlaceholderV2",
)

once(
    "it changes entries of a whole, wherever indices say",
    " TensorStridedSliceUpdate",
)

once("it may be fed, by a whole value", "PlaceholderWithDefault")

once(
    "it computes with sizes or axes of the whole",
    """
    BroadcastArgs BroadcastGradientArgs ConcatOffset DataFormatDimMap DataFormatVecPermute
    InvertPermutation LinSpace Rank Shape ShapeN Size
    """,
)

once(
    "how many results there are depends on the data",
    """
    ComputeAccidentalHits ListDiff Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2
    """,
)

once(
    "it also says which rows it has added up, of all",
    "SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2",
)

once("XLA alone runs it", "SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2")

once("an axis of its input has two in its result, or the reverse", "Diag DiagPart")

once(
    "it draws random numbers of the whole",
    """
    KMC2ChainInitialization KmeansPlusPlusInitialization ParameterizedTruncatedNormal RandomCrop
    SobolSample
    """,
)

once("models have it rarely, and no rule was written", "ApproxTopK IsotonicRegression")
