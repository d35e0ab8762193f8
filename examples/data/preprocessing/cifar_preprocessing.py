"""Makes small images into inputs of a network, as is customary for CIFAR.

An image is taken as a whole. In training it is shifted: padded on all sides by 4 pixels, and cut to
its size again at random.
"""

import tensorflow.compat.v1 as tf

_PADDING = 4  # pixels


def whole(contents, size, channels):
    """Returns an image, float32 [size, size, channels] in 0 to 255.

    Args:
        contents: String scalar, the bytes of an image file.
        size: Side of the result, in pixels; images of another size are resized.
        channels: 1 or 3.
    """
    image = tf.io.decode_image(contents, channels=channels, expand_animations=False)
    # Where nothing is to be resized, this changes nothing.
    image = tf.compat.v2.image.resize(image, [size, size], method="bicubic")
    return tf.ensure_shape(image, [size, size, channels])


def shifted(image, key, position):
    """Returns an image shifted by -4 to 4 pixels in each direction; what comes in is black.

    Args:
        image: float32 [height, width, channels].
        key: Int, see `shuffling.stream_key`.
        position: int64 scalar. Random numbers are a function of this and `key`.
    """
    padded = tf.pad(image, [[_PADDING, _PADDING], [_PADDING, _PADDING], [0, 0]])
    return tf.compat.v2.image.stateless_random_crop(padded, image.shape, seed=[key, position])
