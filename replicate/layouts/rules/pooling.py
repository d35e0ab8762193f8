"""Pooling and its gradients: rows are on axis 0, in all data formats."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import ROWS, ShapeOf, by_labels, linear, row_labels, rows_first

by_labels("MaxPool", "MaxPoolV2", "MaxPool3D", inputs=row_labels(0))
by_labels("AvgPool", "AvgPool3D", inputs=row_labels(0), linear_in=[0])
# Images, what was made of them, and the gradient, which alone is linear.
by_labels(
    "MaxPoolGrad", "MaxPoolGradV2", "MaxPoolGradGrad", "MaxPoolGradGradV2", "MaxPool3DGrad",
    "MaxPool3DGradGrad", "FractionalMaxPoolGrad", inputs=row_labels(0, 1, 2), linear_in=[2],
)  # fmt: skip
# The images' shape is the tower's.
by_labels(
    "AvgPoolGrad", "AvgPool3DGrad", "FractionalAvgPoolGrad",
    inputs={0: ShapeOf(ROWS), 1: ROWS}, linear_in=[1],
)  # fmt: skip


@rule("MaxPoolWithArgmax")
def largest_with_places(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the images, if places of entries are counted in each, and not through all of them."""
    return None if op.attr("include_batch_in_index") else rows_first(op, layouts, [0])


@rule("MaxPoolGradWithArgmax")
def gradient_with_places(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut images, the gradient, and places, if these are counted in each image."""
    kept = None if op.attr("include_batch_in_index") else rows_first(op, layouts, [0, 1, 2])
    return kept or linear(op, layouts, [1])
