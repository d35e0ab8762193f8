"""From the bytes of an image file to the input of a network.

An *augmentation* says how training distorts images, and how evaluation crops them:

    imagenet    random crops, mirrored half of the time; centre crops, see
                `imagenet_preprocessing.py`
    small       shifted by up to 4 pixels, mirrored half of the time; whole images, see
                `cifar_preprocessing.py`
    shift       as small, but not mirrored: for characters
    none        whole images, undistorted

`auto` is `imagenet`, except if all images have the same size, at most 64 × 64, and inputs are not
larger. Then it is `shift` if the images have no colours or are known to show characters, else
`small`.
"""

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from examples.data.preprocessing import cifar_preprocessing, imagenet_preprocessing

_PHOTOGRAPH_SIZE = 224
_SMALL = 64  # pixels, the longest side of what counts as a small image


class Preprocessing(NamedTuple):
    """Makes inputs, float32 [size, size, channels], from files of images."""

    augmentation: str
    size: int  # side of an input, in pixels
    channels: int

    @classmethod
    def of(cls, params, own_shape=(None, None, 3), are_characters=False):
        """Returns what the settings say, and `auto` and None in them mean for some images.

        Args:
            params: Dict with `augmentation` and `image_size`, which may be None.
            own_shape: Ints `(height, width, channels)` of all images; None where they vary.
            are_characters: Whether a mirrored image would be of another class, or of none.
        """
        height, width, channels = own_shape
        is_small = None not in (height, width) and max(height, width) <= _SMALL
        size = params["image_size"] or (max(height, width) if is_small else _PHOTOGRAPH_SIZE)
        channels = 1 if channels == 1 else 3
        augmentation = params["augmentation"]
        if augmentation == "auto":
            if not is_small or size > max(height, width):
                augmentation = "imagenet"
            else:
                augmentation = "shift" if are_characters or channels == 1 else "small"
        return cls(augmentation, size, channels)

    @property
    def shape(self):
        """Ints `(height, width, channels)` of an input."""
        return self.size, self.size, self.channels

    def __call__(self, contents, key=None, position=None):
        """Returns an input, float32 [size, size, channels].

        Args:
            contents: String scalar, the bytes of a JPEG, PNG, GIF or BMP file.
            key: Int that the random distortions depend on, with the position; None: no distortion.
            position: int64 scalar, of the image in a stream.
        """
        return imagenet_preprocessing.normalised(self.pixels(contents, key, position))

    def pixels(self, contents, key=None, position=None):
        """Does likewise, but does not normalise: returns values about in 0 to 255."""
        is_mirrored = self.augmentation in ("imagenet", "small")
        if self.augmentation == "imagenet":
            if key is None:
                image = imagenet_preprocessing.for_evaluation(contents, self.size, self.channels)
            else:
                image = imagenet_preprocessing.for_training(
                    contents, self.size, self.channels, key, position
                )
        else:
            image = cifar_preprocessing.whole(contents, self.size, self.channels)
            if key is not None and self.augmentation != "none":
                image = cifar_preprocessing.shifted(image, key, position)
        if key is not None and is_mirrored:
            image = tf.compat.v2.image.stateless_random_flip_left_right(image, [key ^ 1, position])
        return image
