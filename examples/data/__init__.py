"""Images to train on: scikit-learn's digits, MNIST, folders of images, TFRecords, those of TFDS.

The images of a dataset are divided into the *parts* `train`, `validation` and `test`. A *split* is
a part, or several joined by a plus: `train+validation`.
"""

from examples.data.datasets import (
    DATASETS,
    Data,
    defaults,
    naming_broken_images,
    open_data,
    serving,
)
from examples.data.errors import DataError

__all__ = (
    "DATASETS",
    "Data",
    "DataError",
    "defaults",
    "naming_broken_images",
    "open_data",
    "serving",
)
