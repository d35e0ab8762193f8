"""Opens a dataset and feeds it to Estimators: in order, sharded over workers, ready in time.

A *source* knows one kind of data. It has `num_classes`, `image_shape` (height, width, channels),
`sizes` (images by part) and `batches(parts, rows, batch_size, key)`; and, for networks to be
exported, `serving(params)`, see `serving.py`. A source of your own is one module and one line in
`DATASETS`.
"""

import contextlib

import tensorflow.compat.v1 as tf

from examples.nas_search.data import order, splits
from examples.nas_search.data.digits import Digits
from examples.nas_search.data.errors import DataError
from examples.nas_search.data.image_folder import ImageFolder

_BATCHES_AHEAD = 2

DATASETS = {"digits": Digits, "image_folder": ImageFolder}


def open_data(params):
    """Opens the dataset that the settings name.

    Args:
        params: Dict of settings: `dataset`, `validation_fraction`, `test_fraction`, `seed`,
            `use_tpu`; for a folder of images also `dataset_dir`, `image_size`, `checkpoint_dir`.

    Returns:
        A `Data`.

    Raises:
        DataError: If there is no such dataset, or it is missing, empty or damaged.
    """
    return Data(_source_class(params)(params), params)


def serving(params):
    """Returns the `Serving` of the dataset that the settings name; its images are not needed.

    Args:
        params: Dict of the settings of a run.

    Raises:
        DataError: If there is no such dataset, or it does not tell.
    """
    source = _source_class(params)
    if not hasattr(source, "serving"):
        raise DataError(
            "To export a network, its dataset must tell what a product hands over, but "
            f"{source.__name__} has no method `serving`. Add it, see data/serving.py."
        )
    return source.serving(params)


def _source_class(params):
    if params["dataset"] not in DATASETS:
        raise DataError(
            f"`dataset` must be one of {', '.join(DATASETS)}, but is {params['dataset']!r}. Pass "
            "--dataset image_folder and --dataset_dir for images of your own."
        )
    return DATASETS[params["dataset"]]


class Data:
    """An open dataset.

    Attributes:
        num_classes: Int.
        image_shape: Ints `(height, width, channels)`.
        sizes: Dict of the number of images by part.
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

    def search_input_fn(self, params, start_step, config=None):
        """Returns the input of a search: batches of training and of validation images.

        Args:
            params: Dict of settings: `train_batch_size` and `rl_batch_size_multiplier`; and
                what a TPUEstimator adds, `batch_size` (training images for a core) and `context`.
            start_step: Step from which the search starts or resumes.
            config: The Estimator's `RunConfig`, which tells workers apart. None: there is one.

        Returns:
            An endless `tf.data.Dataset` of `(features, labels)`, dicts with the keys `train` and
            `validation`: images, float32 [rows, height, width, channels], on TPUs [height, width,
            channels, rows]; and one-hot labels, float32 [rows, num_classes].

        Raises:
            DataError: If one of the two parts has no images.
        """
        global_rows = params["train_batch_size"]
        rows = params.get("batch_size", global_rows)
        worker = worker_of(config, params.get("context"))
        batches = {}
        for part, multiplier in (
            ("train", 1.0),
            ("validation", params["rl_batch_size_multiplier"]),
        ):
            start = start_step * round(global_rows * multiplier)
            batches[part] = self._training(
                part, round(rows * multiplier), self._seed, start, worker
            )
        together = tf.data.Dataset.zip(batches).map(
            lambda batch: tuple({part: batch[part][i] for part in batches} for i in (0, 1))
        )
        return together.prefetch(_BATCHES_AHEAD)

    def input_fn(self, split, batch_size, training, *, seed=None, start_step=0, config=None):
        """Returns the input of a network that is trained alone.

        Args:
            split: The images to take, see the package.
            batch_size: Images of a batch.
            training: Whether batches are endless, full, shuffled and, but for digits, distorted.
                Otherwise each image comes once, in a fixed order, and the last batch may be
                smaller.
            seed: Int that the order depends on; None takes the seed of the settings.
            start_step: Step from which training starts or resumes.
            config: The Estimator's `RunConfig`, for which workers train on different images.

        Returns:
            A `tf.data.Dataset` of images and labels like those of `search_input_fn`.

        Raises:
            DataError: If the split has no images.
        """
        if training:
            seed = self._seed if seed is None else seed
            start = start_step * batch_size
            batches = self._training(split, batch_size, seed, start, worker_of(config))
        else:
            batches = self._batches(split, order.once(self.size(split)), batch_size)
        return batches.prefetch(_BATCHES_AHEAD)

    def broken_images(self):
        """Returns the images that cannot be decoded: a list of what is wrong, file by file."""
        return getattr(self._source, "broken_images", list)()

    def _training(self, split, batch_size, seed, start, worker):
        key = order.stream_key(seed, split)
        rows = order.shuffled(self.size(split), key, start, worker)
        batches = self._batches(split, rows, batch_size, key)
        axis = 3 if self._use_tpu else 0
        return batches.map(
            lambda images, labels: (
                tf.ensure_shape(images, _with(images.shape, axis, batch_size)),
                tf.ensure_shape(labels, [batch_size, self.num_classes]),
            )
        )

    def _batches(self, split, rows, batch_size, key=None):
        batches = self._source.batches(splits.parts_of(split), rows, batch_size, key)

        def convert(images, labels):
            if self._use_tpu:
                images = tf.transpose(images, [1, 2, 3, 0])
            return images, tf.one_hot(labels, self.num_classes)

        return batches.map(convert)


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
        host, hosts, _, _ = context.current_input_fn_deployment()
        return host, hosts
    if config is None or config.num_worker_replicas <= 1:
        return 0, 1
    is_chief = config.task_type in ("chief", "master")
    return 0 if is_chief else config.task_id + 1, config.num_worker_replicas


@contextlib.contextmanager
def naming_broken_images(data):
    """Context in which an image that cannot be decoded raises an error that names its file.

    A decoder does not know what it decodes; so when it fails, all images are tried one by one.

    Args:
        data: The `Data` that is read in the context.

    Raises:
        DataError: In place of `tf.errors.InvalidArgumentError`, if an image is the cause.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        broken = data.broken_images()
        if not broken:
            raise
        raise DataError(
            f"{len(broken)} of {sum(data.sizes.values())} images cannot be decoded: "
            f"{'; '.join(broken[:5])}{'; ...' if len(broken) > 5 else ''}. Replace them; or "
            "remove them and start with a new --checkpoint_dir."
        ) from error
