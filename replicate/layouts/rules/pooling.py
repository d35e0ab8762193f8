"""Pooling and its gradients: rows are on axis 0, in all data formats."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import ROWS, ShapeOf, by_labels, linear, row_labels, rows_first

by_labels("MaxPool", "MaxPoolV2", "MaxPool3D", inputs=row_labels(0))
by_labels("AvgPool", "AvgPool3D", inputs=row_labels(0), linear_in=[0])
# Inputs are images, the result of pooling, and the gradient; only the last one is linear.
by_labels(
    "MaxPoolGrad", "MaxPoolGradV2", "MaxPoolGradGrad", "MaxPoolGradGradV2", "MaxPool3DGrad",
    "MaxPool3DGradGrad", "FractionalMaxPoolGrad", inputs=row_labels(0, 1, 2), linear_in=[2],
)  # fmt: skip
# Input 0 is the shape of the images, which is the tower's.
by_labels(
    "AvgPoolGrad", "AvgPool3DGrad", "FractionalAvgPoolGrad",
    inputs={0: ShapeOf(ROWS), 1: ROWS}, linear_in=[1],
)  # fmt: skip


@rule("MaxPoolWithArgmax")
def largest_with_places(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits the images, if positions are counted within each image, and not through the batch."""
    return None if op.attr("include_batch_in_index") else rows_first(op, layouts, [0])


@rule("MaxPoolGradWithArgmax")
def gradient_with_places(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits images, gradient and positions, if these are counted within each image."""
    kept = None if op.attr("include_batch_in_index") else rows_first(op, layouts, [0, 1, 2])
    return kept or linear(op, layouts, [1])
