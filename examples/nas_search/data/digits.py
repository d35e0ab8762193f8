"""Scikit-learn's handwritten digits: 1,797 images of 8×8 pixels, 10 classes, no download."""

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search.data import splits
from examples.nas_search.data.errors import DataError
from examples.nas_search.data.serving import Serving

_BRIGHTEST = 16  # value of a pixel


class Digits:
    """The digits as a source of images, see `datasets.py`."""

    num_classes = 10
    image_shape = (8, 8, 1)

    def __init__(self, params):
        """Loads them.

        Args:
            params: Dict with `validation_fraction` and `test_fraction`.

        Raises:
            DataError: If scikit-learn is not installed.
        """
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

    def batches(self, parts, rows, batch_size, key=None):
        """Returns a `tf.data.Dataset` of batches.

        Args:
            parts: Names of parts, whose images are numbered in this order.
            rows: `tf.data.Dataset` of `(row, position)`, see `order.py`.
            batch_size: Images per batch; the last may be smaller.
            key: Not needed, as digits are not distorted.

        Returns:
            A dataset of images, float32 [batch, 8, 8, 1] in [0, 1], and labels, int32 [batch].
        """
        # In the graph they are bytes, which every checkpoint holds a copy of.
        images = np.concatenate([self._images[part] for part in parts])
        labels = np.concatenate([self._labels[part] for part in parts])

        def load(rows, positions):
            batch = tf.cast(tf.gather(images, rows), tf.float32)[..., tf.newaxis]
            return _normalized(batch), tf.gather(labels, rows)

        return rows.batch(batch_size).map(load)

    @staticmethod
    def serving(params):
        """Returns the `Serving` of digits."""
        names = [str(digit) for digit in range(Digits.num_classes)]
        return Serving((0, _BRIGHTEST), _normalized, class_names=names)


def _normalized(pixels):
    """Returns pixels, float32 of any shape, in [0, 1]."""
    return pixels / _BRIGHTEST
