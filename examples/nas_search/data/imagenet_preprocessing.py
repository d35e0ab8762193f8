"""Makes photographs of any size into inputs of a network, as is customary for ImageNet.

An *image* is uint8 [height, width, 3], an *input* float32 [size, size, 3], normalised by the mean
and the standard deviation of ImageNet's colours.
"""

import tensorflow.compat.v1 as tf

_MEAN = (0.485, 0.456, 0.406)  # of ImageNet, by channel, in units of 255
_DEVIATION = (0.229, 0.224, 0.225)
_MARGIN = 32  # pixels that a centre crop leaves out, counted at the size of the input


def for_training(image, size, key, position):
    """Returns a random crop of an image, mirrored half of the time.

    The crop has 8 % to 100 % of the image's area and an aspect ratio from 3/4 to 4/3; where ten
    attempts find none, it is the centre.

    Args:
        image: uint8 [height, width, 3].
        size: Side of the input, in pixels.
        key: Int, see `order.stream_key`.
        position: int64 scalar. What is random is a function of this and `key`.
    """
    shape = tf.shape(image)
    begin, crop, _ = tf.compat.v2.image.stateless_sample_distorted_bounding_box(
        shape,
        bounding_boxes=[[[0.0, 0.0, 1.0, 1.0]]],
        seed=[key, position],
        min_object_covered=0.1,
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0),
        max_attempts=10,
    )
    found = tf.reduce_any(tf.not_equal(crop[:2], shape[:2]))  # else it is the whole image
    cropped = tf.cond(
        found, lambda: tf.slice(image, begin, crop), lambda: _centre(image, size), name="crop"
    )
    cropped = tf.compat.v2.image.stateless_random_flip_left_right(cropped, seed=[key ^ 1, position])
    return normalized(_resized(cropped, size))


def for_evaluation(image, size):
    """Returns the centre crop of an image: a square with size / (size + 32) of its short side."""
    return normalized(centre_crop(image, size))


def centre_crop(image, size):
    """Does as `for_evaluation`, but returns pixels: float32 [size, size, 3], about in [0, 255]."""
    return _resized(_centre(image, size), size)


def normalized(pixels):
    """Returns pixels as inputs, both float32 [..., 3]."""
    return (pixels / 255 - tf.constant(_MEAN)) / tf.constant(_DEVIATION)


def _centre(image, size):
    shape = tf.shape(image)
    short = tf.cast(tf.minimum(shape[0], shape[1]), tf.float32)
    side = tf.maximum(1, tf.cast(size / (size + _MARGIN) * short, tf.int32))
    top, left = (shape[0] - side) // 2, (shape[1] - side) // 2
    return image[top : top + side, left : left + side]


def _resized(image, size):
    resized = tf.compat.v2.image.resize(image, [size, size], method="bicubic")
    return tf.ensure_shape(resized, [size, size, 3])
