"""MNIST-1D: 5,000 sequences of 40 values, 500 of each digit, made by the package mnist1d.

Greydanus and Kobak, "Scaling Down Deep Learning with MNIST-1D" (ICML 2024). Nothing is downloaded:
the package computes the published sequences, from a seed of its own. A sequence is an image of one
row.
"""

import contextlib
import functools
import random
from typing import Any, Iterator, List, Mapping, Tuple

import numpy as np

from examples.data import splits
from examples.data.sources.images_in_memory import ImagesInMemory

_NUM_TEST = 1000


class Mnist1d(ImagesInMemory):
    """The sequences as a source of images, see `datasets.py`; the published test part is `test`.

    Their mean is 0 and their standard deviation 1, and networks see them so.
    """

    name = "mnist1d"
    package = "mnist1d"
    extra = "mnist1d"
    image_shape = (1, 40, 1)
    darkest, brightest = -6, 6  # no value is beyond

    @staticmethod
    @functools.lru_cache(maxsize=None)  # To make them takes seconds.
    def load() -> Tuple[np.ndarray, np.ndarray]:
        """Returns images, float32 [5000, 1, 40], and labels, int64 [5000]; those for tests last."""
        from mnist1d.data import make_dataset

        with _global_generators_kept():
            made = make_dataset()  # Sets their seeds to 42.
        sequences = np.concatenate([made["x"], made["x_test"]]).astype(np.float32)
        return sequences[:, np.newaxis], np.concatenate([made["y"], made["y_test"]])

    @staticmethod
    def _parts_of(images: np.ndarray, params: Mapping[str, Any]) -> List[str]:
        known = images[:-_NUM_TEST]
        fraction = params["validation_fraction"]
        parts = [splits.part_of(image.tobytes(), fraction, 0.0) for image in known]
        return [*parts, *["test"] * _NUM_TEST]

    @classmethod
    def _normalised(cls, pixels: Any) -> Any:
        return pixels


@contextlib.contextmanager
def _global_generators_kept() -> Iterator[None]:
    """Context after which Python's and NumPy's global generators are as before."""
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
