"""Pulses: 20,000 sequences of 128 values, each with two pulses; their distance is the class.

Made for architecture search: a network whose layers see less than the distance between two pulses
cannot tell it, so kernels, depth and downsampling decide how good a network is. Nothing is
downloaded, and the sequences are the same everywhere. A sequence is an image of one row.
"""

import functools
from typing import Any, List, Mapping, Tuple

import numpy as np

from examples.data import splits
from examples.data.sources.images_in_memory import ImagesInMemory

_LENGTH = 128
_NUM_KNOWN, _NUM_TEST = 16000, 4000
_NUM_CLASSES = 20
_SPACING = 3  # Class c has a distance of 3 (c + 1) values.
_MARGIN = 2  # values between a pulse and an end of its sequence
_NOISE = 0.2  # standard deviation; pulses are about 1 high


class Pulses(ImagesInMemory):
    """The sequences as a source of images, see `datasets.py`; the last fifth is `test`.

    Their mean is 0 and their standard deviation 1, and networks see them so.
    """

    name = "pulses"
    image_shape = (1, _LENGTH, 1)
    num_classes = _NUM_CLASSES
    darkest, brightest = -8, 8  # no value is beyond

    @staticmethod
    @functools.lru_cache(maxsize=None)  # To make them takes a tenth of a second.
    def load() -> Tuple[np.ndarray, np.ndarray]:
        """Returns images, float32 [20000, 1, 128], and labels, int64 [20000]; those for tests last.

        A sequence has two pulses exp(−t² / 2), each 0.75 to 1.25 high, anywhere; noise of standard
        deviation 0.2; and a line from −s to s, with s between −0.4 and 0.4.
        """
        random = np.random.RandomState(1)  # All versions of NumPy draw the same.
        number = _NUM_KNOWN + _NUM_TEST
        labels = random.randint(_NUM_CLASSES, size=number).astype(np.int64)
        distances = _SPACING * (labels + 1)
        room = _LENGTH - 2 * _MARGIN - distances
        first = _MARGIN + np.floor(random.uniform(size=number) * room)
        sequences = _pulse(first, random) + _pulse(first + distances, random)
        sequences += _NOISE * random.normal(size=sequences.shape)
        sequences += random.uniform(-0.4, 0.4, [number, 1]) * np.linspace(-1, 1, _LENGTH)
        sequences = (sequences - sequences.mean()) / sequences.std()
        return sequences.astype(np.float32)[:, np.newaxis], labels

    @staticmethod
    def _parts_of(images: np.ndarray, params: Mapping[str, Any]) -> List[str]:
        known = images[:_NUM_KNOWN]
        fraction = params["validation_fraction"]
        parts = [splits.part_of(image.tobytes(), fraction, 0.0) for image in known]
        return [*parts, *["test"] * (len(images) - len(known))]

    @classmethod
    def _normalised(cls, pixels: Any) -> Any:
        return pixels


def _pulse(centers: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Returns a pulse around each of the centers [n], [n, 128]."""
    heights = random.uniform(0.75, 1.25, [len(centers), 1])
    return heights * np.exp(-0.5 * (np.arange(_LENGTH) - centers[:, np.newaxis]) ** 2)
