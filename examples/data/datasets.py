"""Opens a dataset and feeds it to Estimators: in order, sharded over workers, ready in time.

A *source* knows one kind of data. A source of your own is one module and one line in `DATASETS`: a
function of the settings that opens the data, and one that says how networks are served, see
`serving.py`. Open data have

    num_classes, image_shape     ints, the second as (height, width, channels)
    sizes                        dict of the number of images by part
    training(parts, key, start, worker)
                                 an endless `tf.data.Dataset` of images, float32 [height, width,
                                 channels], and labels, int32 []: of the stream of `key`, see
                                 `shuffling.py`, over the images of some parts, what the worker
                                 takes from position `start` on
    evaluation(parts)            a dataset of each of their images once, in a fixed order

and, if images can be damaged, `broken_images()`, a list of texts.
"""

import contextlib
import re
from typing import Any, Callable, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from examples.data import shuffling, splits
from examples.data.errors import DataError
from examples.data.serving import of_image_files
from examples.data.sources.digits import Digits
from examples.data.sources.image_folder import ImageFolder
from examples.data.sources.mnist5k import Mnist5k
from examples.data.sources.pulses import Pulses
from examples.data.sources.tfds_source import VALIDATION_FRACTIONS, open_tfds
from examples.data.sources.tfrecords import open_tfrecords

BATCHES_AHEAD = 2  # that are made while a step runs


class Source(NamedTuple):
    """A kind of data: two functions of the settings of a run."""

    open: Callable[[Any], Any]
    serving: Optional[Callable[[Any], Any]] = None  # None: networks cannot be exported


# By the name of the dataset, up to its first colon.
DATASETS = {
    "digits": Source(Digits, Digits.serving),
    "mnist5k": Source(Mnist5k, Mnist5k.serving),
    "pulses": Source(Pulses, Pulses.serving),
    "image_folder": Source(ImageFolder, of_image_files),
    "tfrecords": Source(open_tfrecords, of_image_files),
    "tfds": Source(open_tfds, of_image_files),
}
_ADDED_LATER = {"augmentation": "auto", "label_offset": None}  # older params.json lack them


def defaults(dataset):
    """Returns the settings that a dataset, a name or None, has by default, whatever the preset."""
    kind, _, name = (dataset or "").partition(":")
    if kind not in ("tfrecords", "tfds"):
        return {}
    fraction = VALIDATION_FRACTIONS.get(re.split("[/:]", name)[0])
    return {"image_size": None, **({"validation_fraction": fraction} if fraction else {})}


def open_data(params):
    """Opens the dataset that the settings name.

    Args:
        params: Dict of settings: `dataset`, `validation_fraction`, `test_fraction`, `seed`,
            `use_tpu`, `augmentation`; for other data than digits also `dataset_dir`,
            `image_size` (None: what suits the images), `label_offset`, `checkpoint_dir`.

    Returns:
        A `Data`.

    Raises:
        DataError: If there is no such dataset, or it is missing, empty or damaged.
    """
    params = {**_ADDED_LATER, **params}
    return Data(_source(params).open(params), params)


def serving(params):
    """Returns the `Serving` of the dataset that the settings name; its images are not needed.

    Args:
        params: Dict of the settings of a run.

    Raises:
        DataError: If there is no such dataset, or it does not tell.
    """
    source = _source(params)
    if source.serving is None:
        raise DataError(
            "To export a network, its dataset must tell what a product hands over, but "
            f"{params['dataset']} has no `serving`. Add it in `DATASETS`, see data/serving.py."
        )
    return source.serving(params)


def _source(params):
    kind, colon, _ = params["dataset"].partition(":")
    if kind not in DATASETS or bool(colon) != (kind == "tfds"):
        raise DataError(
            f"`dataset` must be one of {', '.join(DATASETS)}:NAME, but is {params['dataset']!r}. "
            "Pass --dataset image_folder and --dataset_dir for images of your own."
        )
    return DATASETS[kind]


class Data:
    """An open dataset.

    Attributes:
        num_classes: Int.
        image_shape: Ints `(height, width, channels)`.
        sizes: Dict of the number of images by part.
        settings: Dict of the settings that follow from the data: `num_classes`, `image_shape` and
            `augmentation`.
    """

    def __init__(self, source, params):
        self._source = source
        self._seed = params["seed"]
        self._use_tpu = params["use_tpu"]
        self._fractions = {
            part: params[f"{part}_fraction"] for part in splits.PARTS if part != "train"
        }
        self.num_classes = source.num_classes
        self.image_shape = tuple(source.image_shape)
        self.settings = {
            "num_classes": source.num_classes,
            "image_shape": list(source.image_shape),
            "augmentation": getattr(source, "augmentation", "none"),
        }
        self.sizes = dict(source.sizes)

    def size(self, split):
        """Returns the number of images of a split.

        Raises:
            DataError: If it has none.
        """
        size = sum(self.sizes[part] for part in splits.parts_of(split))
        if not size:
            flags = " and ".join(f"--{part}_fraction {f}" for part, f in self._fractions.items())
            sizes = ", ".join(f"{part} {size}" for part, size in self.sizes.items())
            raise DataError(
                f"The split {split!r} must have images, but has none: images by part are {sizes}. "
                f"Add images, or change {flags}."
            )
        return size

    def input_fn(self, split, batch_size, training, *, seed=None, start_step=0, config=None):
        """Returns the input of a network: batches of images and labels.

        Args:
            split: The images to take, see the package.
            batch_size: Images of a batch.
            training: Whether batches are endless, full, shuffled and, as `augmentation` says,
                distorted. Otherwise each image comes once, in a fixed order, and the last batch
                may be smaller.
            seed: Int that the order depends on; None takes the seed of the settings.
            start_step: Step from which training starts or resumes.
            config: The Estimator's `RunConfig`, for which workers train on different images.

        Returns:
            A `tf.data.Dataset` of images, float32 [rows, height, width, channels], on TPUs [height,
            width, channels, rows]; and one-hot labels, float32 [rows, num_classes].

        Raises:
            DataError: If the split has no images.
        """
        if training:
            start = start_step * batch_size
            batches = self.training_batches(split, batch_size, start, worker_of(config), seed)
        else:
            self.size(split)
            examples = self._source.evaluation(splits.parts_of(split))
            batches = self._batches(examples, batch_size)
        return batches.prefetch(BATCHES_AHEAD)

    def training_batches(self, split, batch_size, start, worker=(0, 1), seed=None):
        """Returns what `input_fn` does to train, for those who know the position in the stream.

        Args:
            split: The images to take, see the package.
            batch_size: Images of a batch.
            start: How many images all workers together have taken before.
            worker: `(w, W)`, see `worker_of`.
            seed: Int that the order depends on; None takes the seed of the settings.

        Returns:
            An endless `tf.data.Dataset` like that of `input_fn`, without batches made ahead.

        Raises:
            DataError: If the split has no images.
        """
        self.size(split)
        key = shuffling.stream_key(self._seed if seed is None else seed, split)
        examples = self._source.training(splits.parts_of(split), key, start, worker)
        batches = self._batches(examples, batch_size)
        axis = 3 if self._use_tpu else 0
        return batches.map(
            lambda images, labels: (
                tf.ensure_shape(images, _with(images.shape, axis, batch_size)),
                tf.ensure_shape(labels, [batch_size, self.num_classes]),
            )
        )

    def broken_images(self):
        """Returns the images that cannot be decoded: a list of what is wrong, file by file."""
        return getattr(self._source, "broken_images", list)()

    def _batches(self, examples, batch_size):
        def convert(images, labels):
            if self._use_tpu:
                images = tf.transpose(images, [1, 2, 3, 0])
            return images, tf.one_hot(labels, self.num_classes)

        return examples.batch(batch_size).map(convert)


def _with(shape, axis, size):
    shape = shape.as_list()
    shape[axis] = size
    return shape


def worker_of(config, context=None):
    """Returns `(w, W)`: the index of this worker among those that train, and their number.

    Args:
        config: A `RunConfig`, or None.
        context: What a TPUEstimator tells its input function about the host to feed; None on
            other engines.
    """
    if context is not None:
        _, host, hosts, _ = context.current_input_fn_deployment()
        return host, hosts
    if config is None or config.num_worker_replicas <= 1:
        return 0, 1
    is_chief = config.task_type in ("chief", "master")
    return 0 if is_chief else config.task_id + 1, config.num_worker_replicas


@contextlib.contextmanager
def naming_broken_images(data):
    """Context in which an image that cannot be decoded raises an error that names its file.

    A decoder does not know what it decodes; so when it fails, all images are tried one by one. So
    they are when the checksum of a record does not match.

    Args:
        data: The `Data` that is read in the context.

    Raises:
        DataError: In place of an error of TensorFlow, if an image is the cause.
    """
    try:
        yield
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
        broken = data.broken_images()
        if not broken:
            raise
        raise DataError(
            f"{len(broken)} of {sum(data.sizes.values())} images cannot be decoded: "
            f"{'; '.join(broken[:5])}{'; ...' if len(broken) > 5 else ''}. Replace them; or "
            "remove them and start with a new --checkpoint_dir."
        ) from error
