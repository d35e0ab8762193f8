"""Operations on images: most process each image by itself, and rows are on axis 0."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import MEAN, Layout, Strategy
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
# Boxes are split, as in `crop`, so the gradient of images is a sum over boxes.
by_labels("CropAndResizeGradImage", inputs=row_labels(0, 1, 2), results=[()], linear_in=[0])
by_labels("CropAndResizeGradBoxes", inputs=row_labels(0, 2, 3), linear_in=[0])
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
    """Splits boxes. A box may belong to any image, so images stay whole, or are partial."""
    kept = cut(op, layouts, ((), ROWS, ROWS, ()), [ROWS])
    # Outside of an image, there is a value that must not be added once for each tower.
    is_linear = not op.attr("extrapolation_value") or layouts[0] == MEAN
    return kept or (linear(op, layouts, [0]) if is_linear else None)
