"""How images of a product become inputs of a network: as those that it was evaluated on did.

A source tells it by a function of the settings of a run, which needs none of the images, so that a
network can be exported where they are not.
"""

from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from examples.data import dataset_metadata
from examples.data.preprocessing import imagenet_preprocessing
from examples.data.preprocessing.image_files import Preprocessing


class Serving(NamedTuple):
    """How a product's images become inputs of a network.

    *Pixels* are the values that an image has in a file or in a camera: float32 [n, height, width,
    channels], of the size that the network takes.
    """

    pixel_range: Tuple[float, float]  # lowest and highest value of a pixel
    normalised: Callable[[Any], Any]  # from pixels to inputs, float32 of the same shape
    # From the contents of an image file of any size, a string scalar, to pixels without the first
    # axis; what evaluation crops and resizes, it does. None if images do not come in files.
    decoded: Optional[Callable[[Any], Any]] = None
    class_names: Optional[List[str]] = None  # by label; None if not known


def of_image_files(params):
    """Returns the `Serving` of what `preprocessing/image_files.py` makes inputs of."""
    size, _, channels = params["image_shape"]
    as_input = Preprocessing(params.get("augmentation", "imagenet"), size, channels)
    names = dataset_metadata.class_names(params["checkpoint_dir"])
    return Serving((0, 255), imagenet_preprocessing.normalised, as_input.pixels, names)
