"""Convolutions and their gradients: rows are on axis 0, in all data formats.

Other axes are not cut: windows reach over edges. The gradient of a filter is a sum over rows.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import ROWS, ShapeOf, cut, leading, linear, rows_first


@rule("Conv", "Conv2D", "Conv3D", "DepthwiseConv2dNative")
def convolution(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the images, of which `Conv` may have several leading axes; the filter is the same."""
    labels = leading(op.attr("batch_dims", 1))
    return cut(op, layouts, (labels, ()), [labels]) or linear(op, layouts)


@rule("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
def input_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the gradient, and as a layer forward, what is to be enlarged."""
    sizes = op.value(0)
    # Two integers are the height and width alone.
    shape = ShapeOf(() if sizes is not None and len(sizes) == 2 else ROWS)
    return cut(op, layouts, (shape, (), ROWS), [ROWS]) or linear(op, layouts, [1, 2])


@rule("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter")
def filter_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut images and the gradient; what comes out is summed over rows."""
    return cut(op, layouts, (ROWS, (), ROWS), [()]) or linear(op, layouts, [0, 2])


@rule("Dilation2D")
def dilation(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the images; the filter is the same for all."""
    return rows_first(op, layouts, [0])


@rule("Dilation2DBackpropInput", "Dilation2DBackpropFilter")
def dilation_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut images and the gradient; that of the filter is summed over rows."""
    result = ROWS if op.type == "Dilation2DBackpropInput" else ()
    return cut(op, layouts, (ROWS, (), ROWS), [result]) or linear(op, layouts, [2])
