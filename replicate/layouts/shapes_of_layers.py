"""Shapes of convolutions, pools, images, normalisation and recurrent cells."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts import dims as dims_lib
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.shapes_table import Shape, like, of_shape, rank_of, shapes, sizes

like(
    "LRN", "LRNGrad", "AdjustContrastv2", "AdjustHue", "AdjustSaturation",
    "RGBToHSV", "HSVToRGB", "MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad",
    "MaxPoolGradWithArgmax", "Dilation2DBackpropInput", "FractionalMaxPoolGrad",
    "DrawBoundingBoxes", "DrawBoundingBoxesV2",
)  # fmt: skip
like("MaxPoolGradGrad", "MaxPoolGradGradV2", "MaxPool3DGradGrad", "ResizeBilinearGrad", source=1)
like("ResizeBicubicGrad", "Dilation2DBackpropFilter", "ScaleAndTranslateGrad", source=1)
like("CropAndResizeGradBoxes", source=2)
of_shape("CropAndResizeGradImage", by=3)
of_shape("FractionalAvgPoolGrad", by=0)
of_shape("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", by=1)
of_shape("DepthwiseConv2dNativeBackpropFilter", by=1)


def channel(op: Op, rank: int) -> int:
    """Returns the axis of channels of an operation that has a data format, by default NHWC."""
    data_format = op.attr("data_format", b"NHWC") or b"NHWC"
    return 1 if data_format.startswith(b"NC") and rank > 1 else rank - 1


@shapes(
    "Conv2D", "Conv3D", "DepthwiseConv2dNative", "Dilation2D", "MaxPool", "AvgPool", "MaxPool3D",
    "AvgPool3D", "MaxPoolWithArgmax", "MaxPoolV2",
)  # fmt: skip
def _windows(op: Op, index: int) -> Shape | None:
    """Keeps rows, channels of pools, and axes with padding SAME and stride 1."""
    given, steps = op.dims(0), op.attr("strides")
    if given is None or op.attr("data_format", b"NHWC") not in _FORMATS:
        return None
    last, window = channel(op, len(given)), op.attr("ksize")
    keeps = op.attr("padding") == b"SAME" and steps is not None
    made: list[Dim | None] = [given[0]]
    for axis in range(1, len(given)):
        if axis == last:
            whole = window is not None and window[axis] == 1
        else:
            whole = keeps and steps[axis] == 1
        made.append(given[axis] if whole else None)
    return made


_FORMATS = (b"NHWC", b"NCHW", b"NDHWC", b"NCDHW")


@shapes("Conv", "ExtractImagePatches", "ExtractVolumePatches")
def _rows_alone(op: Op, index: int) -> Shape | None:
    given, rank = op.dims(0), rank_of(op)
    if given is None or rank is None or op.attr("batch_dims", 1) != 1:
        return None
    return [given[0], *[None] * (rank - 1)]


@shapes(
    "Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput",
    "AvgPoolGrad", "AvgPool3DGrad",
)  # fmt: skip
def _backprop(op: Op, index: int) -> Shape | None:
    shape = sizes(op, 0)
    return None if shape is None or len(shape) != rank_of(op) else shape


@shapes(
    *(f"FusedBatchNorm{part}{version}" for part in ("", "Grad") for version in ("", "V2", "V3"))
)
def _normalized(op: Op, index: int) -> Shape | None:
    return op.dims(0) if index == 0 else None


@shapes(
    "ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea",
    "ResizeNearestNeighborGrad", "ScaleAndTranslate", "ImageProjectiveTransformV2",
    "ImageProjectiveTransformV3",
)  # fmt: skip
def _resized(op: Op, index: int) -> Shape | None:
    given, size = op.dims(0), sizes(op, 2 if op.type.startswith("ImageProjective") else 1)
    if given is None or size is None:
        return None
    return [given[0], *size, given[3]]


@shapes("CropAndResize")
def _cropped(op: Op, index: int) -> Shape | None:
    given, boxes, size = op.dims(0), op.dims(1), sizes(op, 3)
    if given is None or boxes is None or size is None:
        return None
    return [boxes[0], *size, given[3]]


@shapes("SpaceToDepth", "DepthToSpace")
def _blocks(op: Op, index: int) -> Shape | None:
    given, block = op.dims(0), op.attr("block_size")
    if given is None or op.attr("data_format") not in _FORMATS:
        return None
    last = channel(op, 4)
    merges = op.type == "SpaceToDepth"

    def scaled(size: Dim, factor: int, up: bool) -> Dim | None:
        return dims_lib.times(size, factor) if up else dims_lib.over(size, factor)

    return [
        size if axis == 0 else scaled(size, block**2, merges) if axis == last
        else scaled(size, block, not merges)
        for axis, size in enumerate(given)
    ]  # fmt: skip


@shapes("SpaceToBatch", "BatchToSpace", "SpaceToBatchND", "BatchToSpaceND")
def _batches(op: Op, index: int) -> Shape | None:
    given, block, rank = op.dims(0), blocks_of_space(op), rank_of(op)
    if given is None or block is None or rank is None:
        return None
    many = dims_lib.product(block)
    to_batch = op.type.startswith("SpaceToBatch")
    rows = dims_lib.times(given[0], many) if to_batch else dims_lib.over(given[0], many)
    return [rows, *[None] * len(block), *given[len(block) + 1 :]]


def blocks_of_space(op: Op) -> Sequence[int] | None:
    """Returns the block size of each spatial axis, None if it is not known."""
    side = op.attr("block_size")
    return op.ints(1) if side is None else (side, side)


@shapes("BlockLSTM", "BlockLSTMV2")
def _recurrent(op: Op, index: int) -> Shape | None:
    return _leading(op.dims(1), 2, rank_of(op, index))


@shapes("CombinedNonMaxSuppression", "NearestNeighbors")
def _first_axis(op: Op, index: int) -> Shape | None:
    return _leading(op.dims(0), 1, rank_of(op, index))


@shapes("BlockLSTMGrad", "BlockLSTMGradV2")
def _recurrent_gradient(op: Op, index: int) -> Shape | None:
    return op.dims(index + 1)  # Input 0 is the number of steps.


@shapes("LSTMBlockCellGrad")
def _lstm_cell_gradient(op: Op, index: int) -> Shape | None:
    state = op.dims(1)
    if index == 1:  # The four gates are side by side.
        return None if state is None else [state[0], dims_lib.times(state[1], 4)]
    return state if index == 0 else op.dims(index + 2)


@shapes("GRUBlockCellGrad")
def _gru_cell_gradient(op: Op, index: int) -> Shape | None:
    state = op.dims(1)
    if index == 3:  # Two gates are side by side.
        return None if state is None else [state[0], dims_lib.times(state[1], 2)]
    return state if index else op.dims(0)


@shapes("LSTMBlockCell", "GRUBlockCell")
def _cell(op: Op, index: int) -> Shape | None:
    return _leading(op.dims(0), 1, rank_of(op, index))


@shapes("BiasAddGrad")
def _channels(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    return None if given is None else [given[channel(op, len(given))]]


def _leading(given: Sequence[Dim] | None, count: int, rank: int | None) -> Shape | None:
    if given is None or rank is None:
        return None
    return [*given[:count], *[None] * (rank - count)]
