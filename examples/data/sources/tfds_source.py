"""Image classification data sets that TensorFlow Datasets has prepared on disk, as a source.

    tfds:NAME[/CONFIG][:VERSION]

TFDS says which files there are, how many records they have, and what a record is; they are read as
other TFRecord files are, see `record_shuffling.py`. Nothing is ever downloaded.
"""

import os
import re

import numpy as np
import tensorflow.compat.v1 as tf

from examples.data import dataset_metadata
from examples.data.errors import DataError
from examples.data.preprocessing.image_files import Preprocessing
from examples.data.sources import record_manifest, record_splits
from examples.data.sources.records import Records
from examples.runs import settings_file

_INFO = "dataset_info.json"
_REQUEST = re.compile(r"tfds:(?P<name>\w+)(/(?P<config>[^/:]+))?(:(?P<version>\d+\.\d+\.\d+))?")
_IMAGENET = "imagenet2012"
_NUM_CLASSES = {_IMAGENET: 1001}  # as published; images have the labels 0 to 999
_WITHOUT_LABELS = {_IMAGENET: ("test",)}
_CHARACTERS = ("svhn_cropped", "cmaterdb")  # in colour
_BY_HAND = {_IMAGENET: "ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar, from image-net.org,"}
# Of ImageNet's training images, the published split takes the first 50,046.
VALIDATION_FRACTIONS = {_IMAGENET: 50046 / 1281167}


def open_tfds(params):
    """Opens a data set, a source as `datasets.py` has it.

    Args:
        params: Dict with `dataset`, `dataset_dir` (None: where TFDS has its data),
            `checkpoint_dir`, `image_size`, `augmentation`, `validation_fraction` and
            `test_fraction`.

    Returns:
        A `Records`.

    Raises:
        DataError: If it is not prepared, is not of images with classes, or changed since the run
            began; or if TFDS is not installed.
    """
    name, directory = _find(params["dataset"], params["dataset_dir"])
    info = _info(name, directory)
    image_key, label_key = _features(params["dataset"], info)
    image = info.features[image_key]
    wanted = {key: info.features[key] for key in (image_key, label_key)}
    counts, official = _files(name, directory, info)
    known = record_manifest.facts(
        directory,
        list(counts),
        params["checkpoint_dir"],
        lambda names, sizes: [
            record_manifest.FileFacts(size, counts[name]) for name, size in zip(names, sizes)
        ],
    )

    def parse(record):
        import tensorflow_datasets as tfds

        example = tfds.features.FeaturesDict(wanted).deserialize_example(
            record, decoders={image_key: tfds.decode.SkipDecoding()}
        )
        return example[image_key], example[label_key]

    official = {
        split: [(os.path.join(directory, file), known[file]) for file in files]
        for split, files in official.items()
    }
    names = {"classes": info.features[label_key].names}
    settings_file.write_json(
        names,
        os.path.join(params["checkpoint_dir"], dataset_metadata.DIRECTORY),
        dataset_metadata.CLASSES,
    )
    num_classes = _NUM_CLASSES.get(name, info.features[label_key].num_classes)
    as_input = Preprocessing.of(params, image.shape, are_characters=name in _CHARACTERS)
    return Records(official, parse, num_classes, as_input, params)


def _find(dataset, data_dir):
    """Returns the name of a data set, and the directory of its newest version."""
    match = _REQUEST.fullmatch(dataset)
    if not match:
        raise DataError(
            "A data set of TFDS is named tfds:NAME, tfds:NAME/CONFIG or tfds:NAME:1.0.0, but "
            f"`dataset` is {dataset!r}. Pass e.g. --dataset tfds:cifar10."
        )
    name, config, version = match.group("name", "config", "version")
    data_dir = os.path.expanduser(
        data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    )
    root = os.path.join(data_dir, name)
    prepared = {}  # (config, version): directory
    for pattern in ("*", "*/*"):
        for path in tf.io.gfile.glob(os.path.join(root, pattern, _INFO)):
            directory = os.path.dirname(path)
            *of_config, of_version = directory[len(root) + 1 :].split("/")
            if re.fullmatch(r"\d+\.\d+\.\d+", of_version):
                prepared["".join(of_config), of_version] = directory
    fitting = [(c, v) for c, v in prepared if config in (None, c) and version in (None, v)]
    if not fitting:
        raise DataError(_not_prepared(match, data_dir, prepared))
    configs = sorted({c for c, _ in fitting})
    if len(configs) > 1:
        raise DataError(
            f"Several configurations of {name} are prepared in {data_dir}: {', '.join(configs)}. "
            f"Name one: --dataset tfds:{name}/{configs[0]}."
        )
    newest = max(fitting, key=lambda key: [int(number) for number in key[1].split(".")])
    return name, prepared[newest]


def _not_prepared(match, data_dir, prepared):
    request, name = match.group()[len("tfds:") :], match.group("name")
    above = os.path.dirname(data_dir.rstrip("/"))
    if any(tf.io.gfile.glob(os.path.join(above, name, deep, _INFO)) for deep in ("*", "*/*")):
        return (
            "--dataset_dir must be the folder in which data sets have folders, but "
            f"{data_dir} is one of these. Pass --dataset_dir {above}."
        )
    others = ", ".join(sorted(f"{c}:{v}".lstrip(":") for c, v in prepared))
    by_hand = ""
    if name in _BY_HAND:
        by_hand = (
            f" Download {_BY_HAND[name]} into "
            f"{os.path.join(data_dir, 'downloads', 'manual')} by hand before."
        )
    return (
        f"The data set must be prepared on disk, but tfds:{request} is not in {data_dir}"
        f"{f', where there is {others}' if others else ''}. "
        f"Pass the --dataset_dir where it is, or prepare it: {_command(request, data_dir)}."
        f"{by_hand}"
    )


def _command(request, data_dir):
    return (
        f"`python -c \"import tensorflow_datasets as tfds; tfds.builder('{request}', "
        f"data_dir='{data_dir}').download_and_prepare()\"`"
    )


def _info(name, directory):
    """Returns the `DatasetInfo` of a prepared data set."""
    try:
        import tensorflow_datasets as tfds
    except ImportError as error:
        raise DataError(
            "Data sets of TFDS need the package tensorflow-datasets, which does not import here "
            f"({error}). Run `pip install 'replicate-estimator[tfds]'`."
        ) from error
    info = tfds.builder_from_directory(directory).info
    file_format = info.file_format.value
    if file_format != "tfrecord":
        raise DataError(
            f"Data must be prepared as files of TFRecords, but those in {directory} are "
            f"{file_format}. Prepare {name} again: pass file_format='tfrecord' to tfds.builder."
        )
    if "train" not in info.splits:
        raise DataError(
            f"A dataset must have training images, but the splits in {directory} are "
            f"{', '.join(info.splits) or 'none'}. Pass another --dataset."
        )
    return info


def _features(dataset, info):
    """Returns the names of the image and of the label in an example."""
    import tensorflow_datasets as tfds

    features = info.features if isinstance(info.features, tfds.features.FeaturesDict) else {}
    images = [
        key
        for key, feature in features.items()
        if isinstance(feature, tfds.features.Image) and feature.np_dtype == np.uint8
    ]
    labels = [key for key, feature in features.items() if type(feature) is tfds.features.ClassLabel]
    supervised = info.supervised_keys or ()
    found = []
    for keys in (images, labels):
        chosen = [key for key in keys if key in supervised] or keys
        found += chosen if len(chosen) == 1 else []
    if len(found) < 2:
        raise DataError(
            "A data set for classification must have an image of bytes and a class, but the "
            f"features of {dataset} are {', '.join(features) or 'none'}: images are "
            f"{', '.join(images) or 'none'}, classes {', '.join(labels) or 'none'}. Pass another "
            "--dataset."
        )
    return found


def _files(name, directory, info):
    """Returns the records of each file by its name, and the names by official split."""
    counts, official = {}, {}
    for split in record_splits.OFFICIAL:
        if split not in info.splits or split in _WITHOUT_LABELS.get(name, ()):
            continue
        files = [os.path.basename(path) for path in info.splits[split].filepaths]
        counts.update(zip(files, info.splits[split].shard_lengths))
        official[split] = files
    return counts, official
