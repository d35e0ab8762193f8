"""The features that records of images have, and how the bytes of an image file are made of them."""

from typing import Any, Callable, NamedTuple

import tensorflow.compat.v1 as tf

_SIDE = 32  # pixels of an image of CIFAR
_RAW_BYTES = 3 * _SIDE * _SIDE
BAD_SIZE = f"a raw image must have {_RAW_BYTES} bytes, but has"  # In an error, before the number.


class Layout(NamedTuple):
    """The features of a record, and what they mean."""

    image: str  # names
    label: str
    encoded: Callable[[Any], Any]  # from the image's feature, string [], to an image file's bytes

    @property
    def features(self):
        """Dict of what `tf.io.parse_single_example` takes."""
        return {
            self.image: tf.io.FixedLenFeature([], tf.string),
            self.label: tf.io.FixedLenFeature([], tf.int64),
        }


def _of_planes(raw):
    """Returns the bytes of a PNG file of an image in planes: all red pixels, then the others."""
    fits = tf.debugging.Assert(
        tf.equal(tf.strings.length(raw), _RAW_BYTES),
        [BAD_SIZE, tf.strings.length(raw)],
    )
    with tf.control_dependencies([fits] if fits is not None else []):
        planes = tf.reshape(tf.io.decode_raw(raw, tf.uint8), [3, _SIDE, _SIDE])
    return tf.io.encode_png(tf.transpose(planes, [1, 2, 0]), compression=0)


ENCODED = Layout("image/encoded", "image/class/label", lambda contents: contents)
RAW = Layout("image", "label", _of_planes)
RAW_SHAPE = (_SIDE, _SIDE, 3)


def of_names(names):
    """Returns the `Layout` of a record that has features of these names, None if it has none."""
    for layout in (ENCODED, RAW):
        if {layout.image, layout.label} <= set(names):
            return layout
    return None
