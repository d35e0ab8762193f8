"""TFRecord files of images as a source, in the layout that is customary for ImageNet, or CIFAR's.

    dataset_dir/train-00000-of-01024, ...         training images
    dataset_dir/validation-00000-of-00128, ...    and, where they are set apart, official
    dataset_dir/test-00000-of-00128, ...          validation and test images

A record is a `tf.train.Example` with the features

    image/encoded        bytes: a JPEG or PNG file
    image/class/label    int64: the class, from 0 or from 1 on

Small images all have the same size: then inputs have it, too, see `image_files.py`.

As the published program of reversible networks writes CIFAR, the files are `train.tfrecords`,
`validation.tfrecords` and `test.tfrecords`, the last two if there are such, with the features

    image                bytes: 3·32·32 pixels, all red ones, then all green, then all blue
    label                int64: the class

Which is the first class, and how many there are, is found in the files, which are read once for
that. Which image is for what is said in `record_splits.py`.
"""

import concurrent.futures
import itertools
import os
import re

import numpy as np
import tensorflow.compat.v1 as tf
from google.protobuf.message import DecodeError

from examples.data.errors import DataError
from examples.data.preprocessing.image_files import Preprocessing
from examples.data.sources import image_sizes, record_layouts, record_manifest, record_splits
from examples.data.sources.records import Records, faults
from examples.runs.record_lengths import count_whole_records
from replicate.reports.progress_bar import import_tqdm

LAYOUT = (
    "Its files are called train-00000-of-01024 and so on, or train.tfrecords; likewise "
    "validation and test, where such images are set apart."
)
_NAME = re.compile(rf"({'|'.join(record_splits.OFFICIAL)})-(\d{{5,}})-of-(\d{{5,}})")
_ALONE = "{}.tfrecords"  # all images of a split in one file
_AT_ONCE = 64  # records
_READERS = 16
_SHOWN = 5  # of the names in an error


def open_tfrecords(params):
    """Opens the files, a source as `datasets.py` has it.

    Args:
        params: Dict with `dataset_dir`, `checkpoint_dir`, `label_offset` (label of the first class;
            None: 0 or 1, whichever is the lowest), `image_size`, `augmentation`,
            `validation_fraction` and `test_fraction`.

    Returns:
        A `Records`.

    Raises:
        DataError: If files are missing or damaged, or changed since the run began.
    """
    directory = params["dataset_dir"]
    names = _names(directory)
    every = [name for of_split in names.values() for name in of_split]
    layout = _layout([os.path.join(directory, name) for name in every])
    known = record_manifest.facts(
        directory,
        every,
        params["checkpoint_dir"],
        lambda unknown, sizes: _count(directory, unknown, sizes, layout),
    )
    offset, num_classes = _labels(directory, known, params["label_offset"])
    _warn_if_sorted([(name, known[name]) for name in names["train"] if known[name].records])

    def parse(record):
        features = tf.io.parse_single_example(record, layout.features)
        return layout.encoded(features[layout.image]), features[layout.label] - offset

    official = {
        split: [(os.path.join(directory, name), known[name]) for name in of_split]
        for split, of_split in names.items()
    }
    as_input = Preprocessing.of(params, _shape(known.values(), layout))
    return Records(official, parse, num_classes, as_input, params)


def _shape(known, layout):
    """Returns the shape that all images have, see `Preprocessing.of`."""
    if layout is record_layouts.RAW:
        return record_layouts.RAW_SHAPE
    return image_sizes.common(each.image_shape for each in known if each.records)


def _names(directory):
    """Returns the names of the files by official split, in order."""
    if not directory or not tf.io.gfile.isdir(directory):
        raise DataError(
            f"Pass --dataset_dir, the folder of the TFRecord files; it is {directory!r}. {LAYOUT}"
        )
    listed = sorted(tf.io.gfile.listdir(directory))
    matches = [match for match in map(_NAME.fullmatch, listed) if match]
    names = {
        split: [match.group() for match in matches if match.group(1) == split]
        for split in record_splits.OFFICIAL
    }
    if not names["train"]:
        names = {
            split: [name for name in listed if name == _ALONE.format(split)] for split in names
        }
        if names["train"]:
            return names
        raise DataError(
            f"A dataset must have training images, but no file in {directory} is called train-... "
            f"or train.tfrecords; it has {', '.join(listed[:5]) or 'nothing'}. {LAYOUT}"
        )
    for split, of_split in names.items():
        if not of_split:
            continue
        number = _NAME.fullmatch(of_split[0]).group(3)
        expected = (f"{split}-{i:05}-of-{number}" for i in range(int(number)))
        # No more of them than there are files: a name may say any number.
        some = list(itertools.islice(expected, len(of_split) + _SHOWN + 1))
        if of_split != some:
            wrong = sorted(set(some) ^ set(of_split))
            more = ", ..." if len(wrong) > _SHOWN else ""
            raise DataError(
                f"All files of a dataset must be there, once, but {directory} lacks or has too "
                f"many: {', '.join(wrong[:_SHOWN])}{more}. Copy them again."
            )
    return names


def _count(directory, names, sizes, layout):
    """Reads files; returns their `FileFacts`, and shows how far it is."""
    paths = [os.path.join(directory, name) for name in names]
    _check_lengths(paths, layout)

    def parse(records):
        features = tf.io.parse_example(records, layout.features)
        heads = tf.strings.substr(features[layout.image], 0, image_sizes.HEAD)
        shape = tf.numpy_function(_common, [heads], tf.int64)
        return features[layout.label], tf.ensure_shape(shape, [3])

    def look(path):
        first = [tf.constant(x, tf.int64) for x in (0, tf.int64.max, tf.int64.min, [-1] * 3)]
        return (
            tf.data.TFRecordDataset(path)
            .batch(_AT_ONCE)
            .map(parse)
            .reduce(
                tuple(first),
                lambda state, found: (
                    state[0] + tf.size(found[0], out_type=tf.int64),
                    tf.minimum(state[1], tf.reduce_min(found[0])),
                    tf.maximum(state[2], tf.reduce_max(found[0])),
                    _both(state[3], found[1]),
                ),
            )
        )

    found = []
    bar = import_tqdm().tqdm(total=len(paths), desc="Counting records", unit="file", disable=None)
    with tf.Graph().as_default(), bar:
        looked = tf.data.Dataset.from_tensor_slices(paths).map(look, _READERS)
        following = tf.data.make_one_shot_iterator(looked).get_next()
        with tf.Session() as session:
            for path, size in zip(paths, sizes):
                try:
                    *counts, shape = session.run(following)
                except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
                    raise _damage(path, layout) from error
                known = (*map(int, counts), tuple(map(int, shape)) if shape[0] > 0 else None)
                found.append(record_manifest.FileFacts(size, *known))
                bar.update()
    return found


def _common(heads):
    """Returns the shape of all images that begin so, int64 [3], 0 if they differ."""
    shape = image_sizes.common(map(image_sizes.shape_of, heads))
    return np.array([0 if size is None else size for size in shape], np.int64)


def _both(shape, other):
    """Returns a shape if two are the same, or the first is that of no image, -1; else 0."""
    same = tf.reduce_all(tf.equal(shape, other)) | tf.equal(shape[0], -1)
    return tf.where(same, other, tf.zeros_like(other))


def _check_lengths(paths, layout):
    """Raises `DataError` if a record claims to be longer than the rest of its file."""
    with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
        for path, (_, is_all) in zip(paths, pool.map(count_whole_records, paths)):
            if not is_all:
                raise _damage(path, layout)


def _layout(paths):
    """Returns the `Layout` of the first record, that of ImageNet if there is none."""
    with tf.Graph().as_default(), tf.Session() as session:
        records = tf.data.TFRecordDataset(paths)
        first = tf.data.make_one_shot_iterator(records).get_next()
        try:
            features = tf.train.Example.FromString(session.run(first)).features.feature
        except tf.errors.OutOfRangeError:
            return record_layouts.ENCODED
        except (tf.errors.DataLossError, DecodeError) as error:
            raise _damage(paths[0], record_layouts.ENCODED) from error
    layout = record_layouts.of_names(features)
    if layout is None:
        raise DataError(
            f"Records must have the features {' and '.join(record_layouts.ENCODED.features)}, but "
            f"the first one of {paths[0]} has {', '.join(sorted(features)) or 'none'}. Write the "
            "files with these names."
        )
    return layout


def _damage(path, layout):
    def load(record):
        return tf.io.parse_single_example(record, layout.features)[layout.label]

    wrong = faults(path, load)
    return DataError(
        f"{len(wrong)} records of {path} are damaged: {'; '.join(wrong[:5])}. Copy it again; "
        "compressed files must be unpacked first."
    )


def _warn_if_sorted(train):
    (first, low), (last, high) = train[0], train[-1]
    if low.highest_label < high.lowest_label:
        tf.logging.warning(
            "Records should be in random order, because parts are divided by position, but labels "
            "of %s are from %s to %s, and of %s from %s to %s. Shuffle the records, and write the "
            "files again.",
            *(first, low.lowest_label, low.highest_label),
            *(last, high.lowest_label, high.highest_label),
        )


def _labels(directory, known, offset):
    """Returns the label of the first class, and the number of classes."""
    known = [facts for facts in known.values() if facts.records]
    lowest = min((facts.lowest_label for facts in known), default=None)
    if lowest is None:
        raise DataError(
            f"A dataset must have images, but the files in {directory} have no records. Write "
            "them again."
        )
    highest = max(facts.highest_label for facts in known)
    if offset is None:
        offset = lowest
    if lowest < offset or offset not in (0, 1):
        raise DataError(
            f"Classes must be numbered from 0 or 1 on, but labels in {directory} are from {lowest} "
            f"to {highest}, and --label_offset is {offset}. Pass the first class as "
            "--label_offset: 0 or 1; write the files again if it is neither."
        )
    if highest - offset < 1:
        raise DataError(
            f"A dataset must have two classes or more, but all labels in {directory} are {lowest}. "
            "Pass a --dataset_dir with images of several classes."
        )
    return offset, highest - offset + 1
