"""Operations on images."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf

from layouts.cases import Fixed, cases, sizes

Arguments = Dict[str, Any]


def single(draw: np.random.RandomState, *shape: int) -> np.ndarray:
    return draw.rand(*shape).astype(np.float32)


def image_shape(draw: np.random.RandomState, channels: int = 0) -> list[int]:
    """Draws how many images there are, their size, and how many channels they have."""
    height, width = draw.randint(2, 6, 2)
    return [sizes(draw, 1)[0], int(height), int(width), channels or int(draw.randint(1, 4))]


def size(draw: np.random.RandomState) -> Fixed:
    return Fixed(draw.randint(1, 7, 2).astype(np.int32))


def corners(draw: np.random.RandomState) -> Arguments:
    """Draws where pixels are: at most one flag is set."""
    flags = [(False, False), (True, False), (False, True)][draw.randint(3)]
    return dict(zip(("align_corners", "half_pixel_centers"), flags))


@cases("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic")
def resize(draw: np.random.RandomState) -> Arguments:
    return {"images": draw.randn(*image_shape(draw)), "size": size(draw), **corners(draw)}


@cases("ResizeArea")
def resize_area(draw: np.random.RandomState) -> Arguments:
    images = draw.randn(*image_shape(draw))
    return {"images": images, "size": size(draw), "align_corners": bool(draw.randint(2))}


@cases("ResizeBilinearGrad", "ResizeBicubicGrad")
def resize_gradient(draw: np.random.RandomState) -> Arguments:
    shape = image_shape(draw)
    return {
        "grads": single(draw, shape[0], *draw.randint(1, 7, 2), shape[-1]),
        "original_image": single(draw, *shape),
        **corners(draw),
    }


@cases("ResizeNearestNeighborGrad")
def nearest_gradient(draw: np.random.RandomState) -> Arguments:
    return {"grads": draw.randn(*image_shape(draw)), "size": size(draw), **corners(draw)}


@cases("ScaleAndTranslate")
def scale_and_translate(draw: np.random.RandomState) -> Arguments:
    return {
        "images": single(draw, *image_shape(draw)),
        "size": size(draw),
        "scale": single(draw, 2) + 0.5,
        "translation": single(draw, 2),
        "antialias": bool(draw.randint(2)),
    }


@cases("ScaleAndTranslateGrad")
def scale_and_translate_gradient(draw: np.random.RandomState) -> Arguments:
    shape = image_shape(draw)
    return {
        "grads": single(draw, shape[0], *draw.randint(1, 7, 2), shape[-1]),
        "original_image": single(draw, *shape),
        "scale": single(draw, 2) + 0.5,
        "translation": single(draw, 2),
    }


def boxes(draw: np.random.RandomState, images: int) -> Arguments:
    """Draws boxes, and the index of the image that each of them belongs to."""
    count = sizes(draw, 1)[0]
    image_of_box = draw.randint(images, size=count).astype(np.int32)
    corners = draw.uniform(-0.5, 1.5, [count, 4]).astype(np.float32)  # Some are outside.
    return {"boxes": corners, "box_ind": image_of_box}


@cases("CropAndResize")
def crop(draw: np.random.RandomState) -> Arguments:
    shape = image_shape(draw)
    method = str(draw.choice(["bilinear", "nearest"]))
    arguments = {"image": draw.rand(*shape), **boxes(draw, shape[0]), "crop_size": size(draw)}
    return {**arguments, "method": method, "extrapolation_value": float(draw.randint(2))}


@cases("CropAndResizeGradImage")
def crop_gradient_of_images(draw: np.random.RandomState) -> Arguments:
    shape = image_shape(draw)
    own = boxes(draw, shape[0])
    grads = single(draw, len(own["boxes"]), *draw.randint(1, 4, 2), shape[-1])
    return {"grads": grads, **own, "image_size": Fixed(np.array(shape, np.int32)), "T": tf.float64}


@cases("CropAndResizeGradBoxes")
def crop_gradient_of_boxes(draw: np.random.RandomState) -> Arguments:
    shape = image_shape(draw)
    own = boxes(draw, shape[0])
    grads = single(draw, len(own["boxes"]), *draw.randint(1, 4, 2), shape[-1])
    return {"grads": grads, "image": draw.rand(*shape), **own}


@cases("DrawBoundingBoxes")
def draw_boxes(draw: np.random.RandomState) -> Arguments:
    shape = image_shape(draw, channels=int(draw.choice([1, 3, 4])))
    return {"images": single(draw, *shape), "boxes": single(draw, shape[0], draw.randint(1, 4), 4)}


@cases("DrawBoundingBoxesV2")
def draw_boxes_of_colours(draw: np.random.RandomState) -> Arguments:
    arguments = draw_boxes(draw)
    channels = arguments["images"].shape[-1]
    return {**arguments, "colors": single(draw, draw.randint(1, 3), max(channels, 4))}


@cases("CombinedNonMaxSuppression")
def combined_suppression(draw: np.random.RandomState) -> Arguments:
    (images, count), classes = sizes(draw, 2), draw.randint(1, 4)
    return {
        "boxes": single(draw, images, count, draw.choice([1, classes]), 4),
        "scores": single(draw, images, count, classes),
        "max_output_size_per_class": Fixed(np.int32(draw.randint(1, 4))),
        "max_total_size": Fixed(np.int32(draw.randint(1, 6))),
        "iou_threshold": Fixed(np.float32(0.5)),
        "score_threshold": Fixed(np.float32(0.2)),
        # Of it, TensorFlow 1.15 finds no shape.
        "pad_per_class": bool(draw.randint(2)) and not tf.__version__.startswith("1."),
        "clip_boxes": bool(draw.randint(2)),
    }


@cases("ImageProjectiveTransformV2")
def project(draw: np.random.RandomState) -> Arguments:
    shape = image_shape(draw)
    count = 1 if draw.rand() < 0.3 else shape[0]
    return {
        "images": draw.randn(*shape),
        "transforms": single(draw, count, 8),
        "output_shape": size(draw),
        "interpolation": str(draw.choice(["NEAREST", "BILINEAR"])),
    }


@cases("ImageProjectiveTransformV3")
def project_and_fill(draw: np.random.RandomState) -> Arguments:
    fill = {"fill_value": np.float32(draw.rand()) * np.ones((), np.float32)}
    return {**project(draw), **fill, "fill_mode": str(draw.choice(["CONSTANT", "REFLECT"]))}


def any_images(draw: np.random.RandomState) -> np.ndarray:
    shape = image_shape(draw, channels=3)
    return single(draw, *sizes(draw, draw.randint(2)), *shape[draw.randint(2) :])


def number(draw: np.random.RandomState) -> Fixed:
    return Fixed(np.float32(draw.rand()))


@cases("AdjustContrastv2")
def contrast(draw: np.random.RandomState) -> Arguments:
    return {"images": any_images(draw), "contrast_factor": number(draw)}


@cases("AdjustHue")
def hue(draw: np.random.RandomState) -> Arguments:
    return {"images": any_images(draw), "delta": number(draw)}


@cases("AdjustSaturation")
def saturation(draw: np.random.RandomState) -> Arguments:
    return {"images": any_images(draw), "scale": number(draw)}


@cases("RGBToHSV", "HSVToRGB")
def colours(draw: np.random.RandomState) -> Arguments:
    return {"images": draw.rand(*sizes(draw, draw.randint(4)), 3)}


@cases("ExtractImagePatches")
def patches(draw: np.random.RandomState) -> Arguments:
    ksizes, strides, rates = (draw.randint(1, 3, 2) for _ in range(3))
    return {
        "images": draw.randn(*image_shape(draw)),
        "ksizes": [1, *ksizes.tolist(), 1],
        "strides": [1, *strides.tolist(), 1],
        "rates": [1, *rates.tolist(), 1],
        "padding": "SAME",
    }


@cases("ExtractVolumePatches")
def solid_patches(draw: np.random.RandomState) -> Arguments:
    return {
        "input": draw.randn(sizes(draw, 1)[0], *draw.randint(3, 5, 3), draw.randint(1, 3)),
        "ksizes": [1, *draw.randint(1, 3, 3).tolist(), 1],
        "strides": [1, *draw.randint(1, 3, 3).tolist(), 1],
        "padding": str(draw.choice(["SAME", "VALID"])),
    }


@cases("SpaceToDepth")
def space_to_depth(draw: np.random.RandomState) -> Arguments:
    shape = image_shape(draw)
    shape[1:3] = [2 * side for side in shape[1:3]]
    return {"input": draw.randn(*shape), "block_size": 2}


@cases("DepthToSpace")
def depth_to_space(draw: np.random.RandomState) -> Arguments:
    return {"input": draw.randn(*image_shape(draw, channels=8)), "block_size": 2}
