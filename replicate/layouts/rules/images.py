"""Operations on images: most work on each image by itself, and rows are on axis 0."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import ROWS, cut, leading, linear, rows_first

RESIZING = ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea")
PATCHES = ("ExtractImagePatches", "ExtractVolumePatches", "SpaceToDepth", "DepthToSpace")


@rule(*RESIZING, *PATCHES, "ResizeNearestNeighborGrad", "ScaleAndTranslate")
def resize(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the images, which come first; sizes, if they are inputs, are the same for all."""
    return rows_first(op, layouts, [0]) or linear(op, layouts, [0])


@rule("ResizeBilinearGrad", "ResizeBicubicGrad", "ScaleAndTranslateGrad")
def resize_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the gradient and the images; of these, no more than the shape is taken."""
    return rows_first(op, layouts, [0, 1]) or linear(op, layouts, [0])


@rule("CropAndResize")
def crop(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the boxes; each is of any image."""
    return rows_first(op, layouts, [1, 2]) or linear(op, layouts, [0])


@rule("CropAndResizeGradImage")
def crop_gradient_of_images(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the boxes; what comes out is summed over them."""
    return cut(op, layouts, (ROWS, ROWS, ROWS, ()), [()]) or linear(op, layouts, [0])


@rule("CropAndResizeGradBoxes")
def crop_gradient_of_boxes(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the boxes; each is of any image."""
    return rows_first(op, layouts, [0, 2, 3]) or linear(op, layouts, [0])


@rule("DrawBoundingBoxes", "DrawBoundingBoxesV2", "CombinedNonMaxSuppression")
def with_boxes(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut images and their boxes, or boxes and their scores."""
    return rows_first(op, layouts, [0, 1])


@rule("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def project(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut images and transforms; there is one transform for each image, or one for all."""
    operands = (ROWS, ROWS, *[()] * (len(layouts) - 2))
    kept = cut(op, layouts, operands, [ROWS], broadcast=frozenset(ROWS))
    return kept or (linear(op, layouts, [0]) if op.type == "ImageProjectiveTransformV2" else None)


@rule("AdjustContrastv2", "AdjustHue", "AdjustSaturation", "RGBToHSV", "HSVToRGB")
def adjust(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut all axes but those that are seen together: channels, for contrast all of an image."""
    rank = op.rank(0)
    if rank is None:
        return None
    labels = leading(rank - (3 if op.type == "AdjustContrastv2" else 1))
    kept = cut(op, layouts, [labels, ()][: len(layouts)], [labels])
    return kept or (linear(op, layouts, [0]) if op.type == "AdjustContrastv2" else None)
