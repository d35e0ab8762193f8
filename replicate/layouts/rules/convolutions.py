"""Convolutions and their gradients: rows are on axis 0, in all data formats.

Other axes are not split, since windows would reach over the edges; only channels of depthwise
convolutions may be. The gradient of a filter is a sum over rows.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import (
    ROWS,
    Labels,
    ShapeOf,
    by_labels,
    cut,
    leading,
    linear,
    row_labels,
)

# Inputs 0 and 2 are images and the gradient; the output is summed over rows.
by_labels(
    "Conv2DBackpropFilter", "Conv3DBackpropFilterV2",
    inputs=row_labels(0, 2), results=[()], linear_in=[0, 2],
)  # fmt: skip
# The filter is the same for all; its gradient is summed over rows.
by_labels("Dilation2D", inputs=row_labels(0))
by_labels("Dilation2DBackpropInput", inputs=row_labels(0, 2), linear_in=[2])
by_labels("Dilation2DBackpropFilter", inputs=row_labels(0, 2), results=[()], linear_in=[2])


@rule("Conv", "Conv2D", "Conv3D")
def convolution(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits the images; `Conv` may have several leading axes. The filter is the same for all."""
    labels = leading(op.attr("batch_dims", 1))
    return cut(op, layouts, (labels, ()), [labels]) or linear(op, layouts)


def _depthwise(op: Op) -> tuple[Labels, Labels]:
    """Returns the labels of images, and those of filters: each channel has a filter of its own.

    Images with filters of their own are correlated as channels of one image, as in trackers.
    """
    row, channel = *ROWS, "channel"
    is_first = op.attr("data_format", b"NHWC") == b"NCHW"
    images = (row, channel, None, None) if is_first else (row, None, None, channel)
    return images, (None, None, channel, None)


@rule("DepthwiseConv2dNative")
def depthwise(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits the images, or the channels and their filters."""
    images, filters = _depthwise(op)
    return cut(op, layouts, (images, filters), [images]) or linear(op, layouts)


@rule("DepthwiseConv2dNativeBackpropInput")
def depthwise_input_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits the gradient, or the channels and their filters."""
    images, filters = _depthwise(op)
    found = cut(op, layouts, (ShapeOf(images), filters, images), [images])
    return found or linear(op, layouts, [1, 2])


@rule("DepthwiseConv2dNativeBackpropFilter")
def depthwise_filter_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Sums over images, or splits the channels."""
    images, filters = _depthwise(op)
    found = cut(op, layouts, (images, ShapeOf(filters), images), [filters])
    return found or linear(op, layouts, [0, 2])


@rule("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def input_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits the gradient, or the input of a transposed convolution, which uses this operation."""
    sizes = op.value(0)
    # If there are two integers, they are height and width, without the rows.
    shape = ShapeOf(() if sizes is not None and len(sizes) == 2 else ROWS)
    return cut(op, layouts, (shape, (), ROWS), [ROWS]) or linear(op, layouts, [1, 2])
