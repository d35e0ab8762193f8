"""Which operations give a row something of the other rows, as a mean or a similarity does."""

from replicate.graphs import row_shapes
from replicate.graphs.reduction_kinds import OF_ALL_ROWS, SUM, axis_of

_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_PRODUCTS = ("MatMul", *row_shapes.MATRICES)
_LOOKUPS = ("GatherV2", "Gather", "ResourceGather")
# Along the last axis.
_ALONG = ("Softmax", "LogSoftmax", "TopK", "TopKV2")
_OF_SEGMENTS = ("SegmentMean", "SegmentSum", "SegmentMax", "SegmentMin", "SegmentProd")
_SEGMENTS = (*_OF_SEGMENTS, *(f"Unsorted{name}" for name in _OF_SEGMENTS))


def mixes(op, kinds):
    """Whether what an operation gives of a row depends on other rows of the tower.

    Args:
        op: The operation.
        kinds: How what it takes is reduced over rows; see `Reductions.of`.
    """
    axes = [axis_of(kind) for kind in kinds]
    if all(axis is None for axis in axes):
        return False
    if op.type in _NORMS:
        return axes[0] is not None and op.get_attr("is_training")
    if op.type in _ALONG:
        rank = op.inputs[0].shape.rank
        return rank is not None and axes[0] == rank - 1
    if op.type in _SEGMENTS:
        return None not in axes[:2]
    if op.type in _PRODUCTS and None not in axes:
        return _pairs_rows(op, axes)
    if op.type in row_shapes.ELEMENTWISE or op.type in (*_PRODUCTS, *_LOOKUPS):
        if op.type in row_shapes.ELEMENTWISE and len(set(_from_last(op.inputs, axes))) > 1:
            return True  # Of each pair of rows.
        shared = [(given, kind) for given, kind in zip(op.inputs, kinds) if kind in OF_ALL_ROWS]
        # An integer that is a sum is a number of rows, such as a size.
        return any(given.dtype.is_floating or kind != SUM for given, kind in shared)
    return False


def _from_last(inputs, axes):
    """Yields where axes of rows are, counted from the last, as shapes are broadcast."""
    for tensor, axis in zip(inputs, axes):
        if axis is not None and tensor.shape.rank is not None:
            yield axis - tensor.shape.rank


def _pairs_rows(op, axes):
    """Whether a product has a number for each pair of rows, as similarities are."""
    if op.type != "MatMul":
        return False
    is_turned = [op.get_attr("transpose_a"), op.get_attr("transpose_b")]
    first, second = (axis != turned for axis, turned in zip(axes, is_turned))
    # Rows of the first are not summed over, nor are those of the second.
    return not first and second
