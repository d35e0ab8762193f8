"""TFRecord files in the layout that is customary for ImageNet, as a source.

    dataset_dir/train-00000-of-01024, ...         training images
    dataset_dir/validation-00000-of-00128, ...    and, where they are set apart, official
    dataset_dir/test-00000-of-00128, ...          validation and test images

A record is a `tf.train.Example` with the features

    image/encoded        bytes: a JPEG or PNG file
    image/class/label    int64: the class, from 0 or from 1 on

Which is the first class, and how many there are, is found in the files, which are read once for
that. Which image is for what is said in `record_splits.py`.
"""

import concurrent.futures
import itertools
import os
import re

import tensorflow.compat.v1 as tf
from google.protobuf.message import DecodeError

from examples.data.errors import DataError
from examples.data.preprocessing.image_files import Preprocessing
from examples.data.sources import record_manifest, record_splits
from examples.data.sources.records import Records, faults
from examples.runs.record_lengths import count_whole_records
from replicate.reports.progress_bar import import_tqdm

LAYOUT = (
    "Its files are called train-00000-of-01024 and so on; likewise validation-... and test-..., "
    "where such images are set apart."
)
_NAME = re.compile(rf"({'|'.join(record_splits.OFFICIAL)})-(\d{{5,}})-of-(\d{{5,}})")
_IMAGE, _LABEL = "image/encoded", "image/class/label"
_FEATURES = {
    _IMAGE: tf.io.FixedLenFeature([], tf.string),
    _LABEL: tf.io.FixedLenFeature([], tf.int64),
}
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
    known = record_manifest.facts(
        directory,
        every,
        params["checkpoint_dir"],
        lambda unknown, sizes: _count(directory, unknown, sizes),
    )
    offset, num_classes = _labels(directory, known, params["label_offset"])
    _warn_if_sorted([(name, known[name]) for name in names["train"] if known[name].records])

    def parse(record):
        features = tf.io.parse_single_example(record, _FEATURES)
        return features[_IMAGE], features[_LABEL] - offset

    official = {
        split: [(os.path.join(directory, name), known[name]) for name in of_split]
        for split, of_split in names.items()
    }
    return Records(official, parse, num_classes, Preprocessing.of(params), params)


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
        raise DataError(
            f"A dataset must have training images, but no file in {directory} is called "
            f"train-...; it has {', '.join(listed[:5]) or 'nothing'}. {LAYOUT}"
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
                f"many: {', '.join(wrong[:_SHOWN])}{more}. Copy them anew."
            )
    return names


def _count(directory, names, sizes):
    """Reads files; returns their `FileFacts`, and shows how far it is."""
    paths = [os.path.join(directory, name) for name in names]
    _check_lengths(paths)
    _check_features(paths[0])

    def look(path):
        examples = tf.data.TFRecordDataset(path).batch(_AT_ONCE)
        labels = examples.map(lambda records: tf.io.parse_example(records, _FEATURES)[_LABEL])
        return labels.reduce(
            tuple(tf.constant(x, tf.int64) for x in (0, tf.int64.max, tf.int64.min)),
            lambda state, labels: (
                state[0] + tf.size(labels, out_type=tf.int64),
                tf.minimum(state[1], tf.reduce_min(labels)),
                tf.maximum(state[2], tf.reduce_max(labels)),
            ),
        )

    found = []
    bar = import_tqdm().tqdm(total=len(paths), desc="Counting records", unit="file", disable=None)
    with tf.Graph().as_default(), bar:
        looked = tf.data.Dataset.from_tensor_slices(paths).map(look, _READERS)
        following = tf.data.make_one_shot_iterator(looked).get_next()
        with tf.Session() as session:
            for path, size in zip(paths, sizes):
                try:
                    records, lowest, highest = map(int, session.run(following))
                except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
                    raise _damage(path) from error
                found.append(record_manifest.FileFacts(size, records, lowest, highest))
                bar.update()
    return found


def _check_lengths(paths):
    """Raises `DataError` if a record claims to be longer than the rest of its file."""
    with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
        for path, (_, is_all) in zip(paths, pool.map(count_whole_records, paths)):
            if not is_all:
                raise _damage(path)


def _check_features(path):
    """Raises `DataError` if the first record of a file has other features than it must."""
    with tf.Graph().as_default(), tf.Session() as session:
        first = tf.data.make_one_shot_iterator(tf.data.TFRecordDataset(path)).get_next()
        try:
            features = tf.train.Example.FromString(session.run(first)).features.feature
        except tf.errors.OutOfRangeError:
            return  # Other files may have records.
        except (tf.errors.DataLossError, DecodeError) as error:
            raise _damage(path) from error
    if not set(_FEATURES) <= set(features):
        raise DataError(
            f"Records must have the features {' and '.join(_FEATURES)}, but the first one of "
            f"{path} has {', '.join(sorted(features)) or 'none'}. Write the files with these names."
        )


def _damage(path):
    wrong = faults(path, lambda record: tf.io.parse_single_example(record, _FEATURES)[_LABEL])
    return DataError(
        f"{len(wrong)} records of {path} are damaged: {'; '.join(wrong[:5])}. Copy it anew; "
        "compressed files must be unpacked first."
    )


def _warn_if_sorted(train):
    (first, low), (last, high) = train[0], train[-1]
    if low.highest_label < high.lowest_label:
        tf.logging.warning(
            "Records should be in random order, because parts are divided by position, but labels "
            "of %s are from %s to %s, and of %s from %s to %s. Shuffle the records, and write the "
            "files anew.",
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
            "them anew."
        )
    highest = max(facts.highest_label for facts in known)
    if offset is None:
        offset = lowest
    if lowest < offset or offset not in (0, 1):
        raise DataError(
            f"Classes must be numbered from 0 or 1 on, but labels in {directory} are from {lowest} "
            f"to {highest}, and --label_offset is {offset}. Pass the first class as "
            "--label_offset: 0 or 1; write the files anew if it is neither."
        )
    if highest - offset < 1:
        raise DataError(
            f"A dataset must have two classes or more, but all labels in {directory} are {lowest}. "
            "Pass a --dataset_dir with images of several classes."
        )
    return offset, highest - offset + 1
