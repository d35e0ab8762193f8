"""Makes photographs of any size into inputs of a network, as is customary for ImageNet.

An *input* is [size, size, channels]: a crop of the image, resized by bicubic interpolation,
normalised by the mean and the standard deviation of ImageNet's colours; for one channel, by the
means of those over the colours.
"""

import tensorflow.compat.v1 as tf

_MEAN = (0.485, 0.456, 0.406)  # of ImageNet, by channel, in units of 255
_DEVIATION = (0.229, 0.224, 0.225)
_BORDER = 2  # pixels
_MARGIN = 32  # pixels that a centre crop leaves out, counted at the size of the input


def for_training(contents, size, channels, key, position):
    """Returns a random crop of an image, float32 [size, size, channels].

    The crop has 8 % to 100 % of the image's area and an aspect ratio from 3/4 to 4/3; where ten
    attempts find none, it is the centre.

    Args:
        contents: String scalar, the bytes of an image file.
        size: Side of the input, in pixels.
        channels: 1 or 3.
        key: Int, see `shuffling.stream_key`.
        position: int64 scalar. Random numbers are a function of this and `key`.
    """

    def box(shape):
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
        random = tf.concat([begin[:2], crop[:2]], axis=0)
        return tf.where_v2(found, random, _centre(shape, size))

    return _resized(_cropped(contents, channels, box), size)


def for_evaluation(contents, size, channels):
    """Returns the centre crop of an image: a square with size / (size + 32) of its short side."""
    return _resized(_cropped(contents, channels, lambda shape: _centre(shape, size)), size)


def normalised(image):
    """Returns a float32 image of values from 0 to 255 with ImageNet's mean 0 and deviation 1."""
    mean, deviation = _MEAN, _DEVIATION
    if image.shape[-1] == 1:
        mean, deviation = (sum(values) / len(values) for values in (mean, deviation))
    return (image / 255 - tf.constant(mean)) / tf.constant(deviation)


def _cropped(contents, channels, box):
    """Returns what is in a box of an image: of JPEG, only that is decoded.

    Args:
        contents: String scalar.
        channels: 1 or 3.
        box: Function of the image's shape, int32 [3], that returns int32 [4]: the top, the left,
            the height and the width of the box.
    """

    def of_jpeg():
        shape = tf.io.extract_jpeg_shape(contents)
        window = box(shape)
        begin, size = window[:2], window[2:]
        # With a border, as colours near the edge of what is decoded lack their neighbours.
        low = tf.maximum(begin - _BORDER, 0)
        high = tf.minimum(begin + size + _BORDER, shape[:2])
        around = tf.concat([low, high - low], axis=0)
        decoded = tf.io.decode_and_crop_jpeg(contents, around, channels=channels)
        return tf.slice(decoded, [*tf.unstack(begin - low), 0], [*tf.unstack(size), channels])

    def of_others():
        image = tf.io.decode_image(contents, channels=channels, expand_animations=False)
        top, left, height, width = tf.unstack(box(tf.shape(image)))
        return image[top : top + height, left : left + width]

    image = tf.cond(tf.io.is_jpeg(contents), of_jpeg, of_others, name="crop")
    return tf.ensure_shape(image, [None, None, channels])


def _centre(shape, size):
    short = tf.cast(tf.minimum(shape[0], shape[1]), tf.float32)
    side = tf.maximum(1, tf.cast(size / (size + _MARGIN) * short, tf.int32))
    return tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])


def _resized(image, size):
    resized = tf.compat.v2.image.resize(image, [size, size], method="bicubic")
    return tf.ensure_shape(resized, [size, size, image.shape[-1]])
