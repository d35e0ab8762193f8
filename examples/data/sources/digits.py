"""Scikit-learn's handwritten digits: 1,797 images of 8×8 pixels, 10 classes, no download."""

import numpy as np
import tensorflow.compat.v1 as tf

from examples.data import shuffling, splits
from examples.data.errors import DataError
from examples.data.serving import Serving

_BRIGHTEST = 16  # value of a pixel
_AT_ONCE = 256  # images to load; one by one takes longer


class Digits:
    """The digits as a source of images, see `datasets.py`."""

    num_classes = 10
    image_shape = (8, 8, 1)

    def __init__(self, params):
        """Loads them.

        Args:
            params: Dict with `validation_fraction`, `test_fraction` and `augmentation`.

        Raises:
            DataError: If scikit-learn is not installed, or digits are to be distorted.
        """
        if params["augmentation"] not in ("auto", "none"):
            raise DataError(
                "The dataset 'digits' is trained on as it is, but --augmentation is "
                f"{params['augmentation']!r}. Leave it out."
            )
        try:
            from sklearn.datasets import load_digits
        except ImportError as error:
            raise DataError(
                f"The dataset 'digits' comes with scikit-learn, which does not import here "
                f"({error}). Run `pip install 'replicate-estimator[examples]'`."
            ) from error
        digits = load_digits()
        images = digits.images.astype(np.uint8)  # all values are integers from 0 to 16
        parts = np.array(
            [
                splits.part_of(
                    image.tobytes(), params["validation_fraction"], params["test_fraction"]
                )
                for image in images
            ]
        )
        self._images = {part: images[parts == part] for part in splits.PARTS}
        self._labels = {
            part: digits.target[parts == part].astype(np.int32) for part in splits.PARTS
        }
        self.sizes = {part: len(images) for part, images in self._images.items()}

    def training(self, parts, key, start, worker):
        """Returns the images of a stream and their labels, see `datasets.py`; in [0, 1]."""
        size = sum(self.sizes[part] for part in parts)
        return self._load(parts, shuffling.shuffled(size, key, start, worker))

    def evaluation(self, parts):
        """Returns the images of parts and their labels, each once."""
        return self._load(parts, shuffling.once(sum(self.sizes[part] for part in parts)))

    def _load(self, parts, rows):
        # In the graph they are bytes, which every checkpoint holds a copy of.
        images = np.concatenate([self._images[part] for part in parts])
        labels = np.concatenate([self._labels[part] for part in parts])

        def load(rows, positions):
            loaded = tf.cast(tf.gather(images, rows), tf.float32)[..., tf.newaxis]
            return _normalised(loaded), tf.gather(labels, rows)

        return rows.batch(_AT_ONCE).map(load).unbatch()

    @staticmethod
    def serving(params):
        """Returns the `Serving` of digits."""
        names = [str(digit) for digit in range(Digits.num_classes)]
        return Serving((0, _BRIGHTEST), _normalised, class_names=names)


def _normalised(pixels):
    """Returns pixels, float32 of any shape, in [0, 1]."""
    return pixels / _BRIGHTEST
