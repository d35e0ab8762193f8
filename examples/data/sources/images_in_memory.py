"""Small images of one channel that a package has or the program makes, as a source."""

import numpy as np
import tensorflow.compat.v1 as tf

from examples.data import shuffling, splits
from examples.data.errors import DataError
from examples.data.serving import Serving

_AT_ONCE = 256  # images to load; one by one takes longer


class ImagesInMemory:
    """Images and their classes as a source, see `datasets.py`.

    A subclass has the attributes below and `load`, a static method without arguments that returns
    images, uint8 or float32 [n, height, width], and labels, ints [n].

    Attributes:
        name: Of the dataset.
        package: What it comes with, None if the program makes it; `extra` installs it.
        extra: Of this distribution, None likewise.
        darkest: Lowest value of a pixel.
        brightest: Highest value of a pixel; networks see values from 0 to 1, unless a subclass has
            another `_normalised`.
    """

    num_classes = 10
    package = extra = None
    image_shape = None
    darkest = 0

    def __init__(self, params):
        """Loads them.

        Args:
            params: Dict with `validation_fraction`, `test_fraction` and `augmentation`.

        Raises:
            DataError: If the package is not installed, or images are to be distorted.
        """
        if params["augmentation"] not in ("auto", "none"):
            raise DataError(
                f"The dataset {self.name!r} is trained on as it is, but --augmentation is "
                f"{params['augmentation']!r}. Leave it out."
            )
        try:
            images, labels = self.load()
        except ImportError as error:
            raise DataError(
                f"The dataset {self.name!r} comes with {self.package}, which does not import here "
                f"({error}). Run `pip install 'replicate-estimator[{self.extra}]'`."
            ) from error
        parts = np.array(self._parts_of(images, params))
        self._images = {part: images[parts == part] for part in splits.PARTS}
        self._labels = {part: labels[parts == part].astype(np.int32) for part in splits.PARTS}
        self.sizes = {part: len(images) for part, images in self._images.items()}

    def training(self, parts, key, start, worker):
        """Returns the images of a stream and their labels, see `datasets.py`; in [0, 1]."""
        size = sum(self.sizes[part] for part in parts)
        return self._load(parts, shuffling.shuffled(size, key, start, worker))

    def evaluation(self, parts):
        """Returns the images of parts and their labels, each once."""
        return self._load(parts, shuffling.once(sum(self.sizes[part] for part in parts)))

    def _load(self, parts, rows):
        # In the graph they are as loaded, mostly bytes: every checkpoint holds a copy of them.
        images = np.concatenate([self._images[part] for part in parts])
        labels = np.concatenate([self._labels[part] for part in parts])

        def load(rows, positions):
            loaded = tf.cast(tf.gather(images, rows), tf.float32)[..., tf.newaxis]
            return self._normalised(loaded), tf.gather(labels, rows)

        return rows.batch(_AT_ONCE).map(load).unbatch()

    @classmethod
    def serving(cls, params):
        """Returns the `Serving` of the images, whose classes are called by their numbers."""
        names = [str(label) for label in range(cls.num_classes)]
        return Serving((cls.darkest, cls.brightest), cls._normalised, class_names=names)

    @staticmethod
    def _parts_of(images, params):
        """Returns the part that each image is in, a list."""
        fractions = params["validation_fraction"], params["test_fraction"]
        return [splits.part_of(image.tobytes(), *fractions) for image in images]

    @classmethod
    def _normalised(cls, pixels):
        """Returns pixels, float32 of any shape, in [0, 1]."""
        return pixels / cls.brightest
