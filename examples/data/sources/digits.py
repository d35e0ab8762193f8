"""Scikit-learn's handwritten digits: 1,797 images of 8×8 pixels, 10 classes, no download."""

import numpy as np

from examples.data.sources.images_in_memory import ImagesInMemory


class Digits(ImagesInMemory):
    """The digits as a source of images, see `datasets.py`."""

    name = "digits"
    package = "scikit-learn"
    extra = "examples"
    image_shape = (8, 8, 1)
    brightest = 16

    @staticmethod
    def load():
        """Returns images, uint8 [1797, 8, 8], and labels, int64 [1797]."""
        from sklearn.datasets import load_digits

        digits = load_digits()
        return digits.images.astype(np.uint8), digits.target  # all are integers from 0 to 16
