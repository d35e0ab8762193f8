"""Operations on images: most process each image by itself, and rows are on axis 0."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts import own_rows
from replicate.layouts.layout import MEAN, WHOLE, Layout, Shard, Share, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import ROWS, by_labels, by_leading_axes, cut, linear, row_labels

RESIZING = ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea")
PATCHES = ("ExtractImagePatches", "ExtractVolumePatches", "SpaceToDepth", "DepthToSpace")

# Images come first; sizes, if they are inputs, are the same for all.
by_labels(
    *RESIZING, *PATCHES, "ResizeNearestNeighborGrad", "ScaleAndTranslate",
    inputs=row_labels(0), linear_in=[0],
)  # fmt: skip
# The second input is the images, of which only the shape is used.
by_labels(
    "ResizeBilinearGrad", "ResizeBicubicGrad", "ScaleAndTranslateGrad",
    inputs=row_labels(0, 1), linear_in=[0],
)  # fmt: skip
# Images and their boxes, or boxes and their scores.
by_labels(
    "DrawBoundingBoxes", "DrawBoundingBoxesV2", "CombinedNonMaxSuppression", inputs=row_labels(0, 1)
)
# Needs all channels of a pixel, for contrast all of an image.
by_leading_axes("AdjustHue", "AdjustSaturation", "RGBToHSV", "HSVToRGB")
by_leading_axes("AdjustContrastv2", but=3, linear_in=[0])


@rule("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def project(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits images and transforms; there is one transform for each image, or one for all."""
    operands = (ROWS, ROWS, *[()] * (len(layouts) - 2))
    kept = cut(op, layouts, operands, [ROWS], broadcast=frozenset(ROWS))
    return kept or (linear(op, layouts, [0]) if op.type == "ImageProjectiveTransformV2" else None)


@rule("CropAndResize")
def crop(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits boxes. Images stay whole, or are partial, unless each box is known to be in its own.

    In Mask R-CNN, image numbers are `tf.range`, repeated for each image's boxes.
    """
    own = own_rows.demand(op, layouts, 2, [0], own_rows.size_of_rows(op, 0))
    if own is not None:
        return Strategy((Shard(0), Shard(0), own, WHOLE), (Shard(0),))
    kept = cut(op, layouts, ((), ROWS, ROWS, ()), [ROWS])
    # Outside of an image, there is a value that must not be added once for each tower.
    is_linear = not op.attr("extrapolation_value") or layouts[0] == MEAN
    return kept or (linear(op, layouts, [0]) if is_linear else None)


@rule("CropAndResizeGradImage")
def crop_gradient_of_images(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits boxes, as in `crop`; if they may belong to any image, the gradient is their sum."""
    size = own_rows.size_in_shape(op, 3)
    own = own_rows.demand(op, layouts, 2, [0, 1], size)
    if own is not None:
        return Strategy((Shard(0), Shard(0), own, Share(0)), (Shard(0),), (size,))
    return cut(op, layouts, (ROWS, ROWS, ROWS, ()), [()]) or linear(op, layouts, [0])


@rule("CropAndResizeGradBoxes")
def crop_gradient_of_boxes(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Splits boxes, as in `crop`."""
    own = own_rows.demand(op, layouts, 3, [0, 1], own_rows.size_of_rows(op, 1))
    if own is not None:
        return Strategy((Shard(0), Shard(0), Shard(0), own), (Shard(0),))
    return cut(op, layouts, (ROWS, (), ROWS, ROWS), [ROWS]) or linear(op, layouts, [0])
