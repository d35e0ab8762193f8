"""Convolutions and their gradients: rows are on axis 0, in all data formats.

Other axes are not cut: windows reach over edges. The gradient of a filter is a sum over rows.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import (
    ROWS,
    ShapeOf,
    by_labels,
    cut,
    leading,
    linear,
    row_labels,
)

# Images and the gradient; what comes out is summed over rows.
by_labels(
    "Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter",
    inputs=row_labels(0, 2), results=[()], linear_in=[0, 2],
)  # fmt: skip
# The filter is the same for all; its gradient is summed over rows.
by_labels("Dilation2D", inputs=row_labels(0))
by_labels("Dilation2DBackpropInput", inputs=row_labels(0, 2), linear_in=[2])
by_labels("Dilation2DBackpropFilter", inputs=row_labels(0, 2), results=[()], linear_in=[2])


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
