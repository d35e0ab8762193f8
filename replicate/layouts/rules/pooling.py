"""Pooling and its gradients: rows are on axis 0, in all data formats."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import linear, rows_first


@rule("MaxPool", "MaxPoolV2", "MaxPool3D")
def largest(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the images."""
    return rows_first(op, layouts, [0])


@rule("AvgPool", "AvgPool3D")
def average(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the images."""
    return rows_first(op, layouts, [0]) or linear(op, layouts)


@rule("MaxPoolWithArgmax")
def largest_with_places(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the images, if places of entries are counted in each, and not through all of them."""
    return None if op.attr("include_batch_in_index") else rows_first(op, layouts, [0])


@rule("MaxPoolGradWithArgmax")
def gradient_with_places(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut images, the gradient, and places, if these are counted in each image."""
    kept = None if op.attr("include_batch_in_index") else rows_first(op, layouts, [0, 1, 2])
    return kept or linear(op, layouts, [1])


@rule("MaxPool3DGradGrad", "FractionalMaxPoolGrad")
@rule("MaxPoolGrad", "MaxPoolGradV2", "MaxPoolGradGrad", "MaxPoolGradGradV2", "MaxPool3DGrad")
def largest_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut images, what was made of them, and the gradient, which alone is linear."""
    return rows_first(op, layouts, [0, 1, 2]) or linear(op, layouts, [2])


@rule("AvgPoolGrad", "AvgPool3DGrad", "FractionalAvgPoolGrad")
def average_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the gradient; the images' shape is the tower's."""
    return rows_first(op, layouts, [1], shape=0) or linear(op, layouts, [1])
