"""Images to search and to train on: scikit-learn's digits, images of one's own, or those of TFDS.

The images of a dataset are divided into the *parts* `train`, `validation` and `test`. A *split* is
a part, or several joined by a plus: `train+validation`.
"""

from examples.nas_search.data.datasets import (
    DATASETS,
    Data,
    defaults,
    naming_broken_images,
    open_data,
    serving,
)
from examples.nas_search.data.errors import DataError

__all__ = (
    "DATASETS",
    "Data",
    "DataError",
    "defaults",
    "naming_broken_images",
    "open_data",
    "serving",
)
