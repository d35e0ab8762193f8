"""Keeps, in the checkpoint directory, which files a run reads: they must be the same to the end.

The order of the images follows from the number of records in each file. The manifest keeps that
number, so that it is counted once.
"""

import concurrent.futures
import os
from typing import NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from examples.data import dataset_metadata
from examples.data.errors import DataError
from examples.runs import settings_file

_NAME = "records.json"
_THREADS = 16


class FileFacts(NamedTuple):
    """Facts about a file of records."""

    bytes: int
    records: int
    lowest_label: Optional[int] = None  # None where nobody looked at the labels
    highest_label: Optional[int] = None
    image_shape: Optional[Tuple[int, int, int]] = None  # None where images differ, or likewise


def facts(directory, names, checkpoint_dir, count):
    """Returns the `FileFacts` of files, a dict by name; those of a run that has begun are kept.

    Args:
        directory: Folder of the files.
        names: Names of the files in it.
        checkpoint_dir: Directory of the run.
        count: Function of names and sizes in bytes, two lists, that returns a list of `FileFacts`.

    Raises:
        DataError: If a file is missing, or differs from when the run began.
    """
    kept_dir = os.path.join(checkpoint_dir, dataset_metadata.DIRECTORY)
    sizes = dict(zip(names, _sizes(directory, names)))
    before = _read(os.path.join(kept_dir, _NAME))
    if before and tf.train.latest_checkpoint(checkpoint_dir):
        _check_same(directory, {name: known.bytes for name, known in before.items()}, sizes)
        return before
    same = {name: known for name, known in before.items() if sizes.get(name) == known.bytes}
    unknown = [name for name in names if name not in same]
    if unknown:
        same.update(zip(unknown, count(unknown, [sizes[name] for name in unknown])))
    found = {name: same[name] for name in names}
    settings_file.write_json(found, kept_dir, _NAME)
    return found


def _sizes(directory, names):
    def size(name):
        try:
            return tf.io.gfile.stat(os.path.join(directory, name)).length
        except tf.errors.OpError as error:
            raise DataError(
                f"All files of a dataset must be there, but {name} in {directory} cannot be read: "
                f"{error.message}. Prepare the data again."
            ) from error

    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(size, names))


def _read(path):
    if not tf.io.gfile.exists(path):
        return {}
    kept = dataset_metadata.read(path, _is_right)
    return {
        name: FileFacts(*known[:4], *(shape and tuple(shape) for shape in known[4:]))
        for name, known in kept.items()
    }


def _is_right(value):
    return isinstance(value, dict) and all(map(_are_facts, value.values()))


def _are_facts(known):
    if not isinstance(known, list) or not 2 <= len(known) <= 5:
        return False
    sizes, labels, shapes = known[:2], known[2:4], known[4:]
    return (
        all(type(size) is int and size >= 0 for size in sizes)
        and all(label is None or type(label) is int for label in labels)
        and all(shape is None or dataset_metadata.is_shape(shape) for shape in shapes)
    )


def _check_same(directory, before, now):
    changes = [
        f"{name} was {_shown(before.get(name))} and is {_shown(now.get(name))}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
    if changes:
        raise DataError(
            f"A run resumes with the files that it began with, but of those in {directory} "
            f"{len(changes)} changed: {'; '.join(changes[:5])}{'; ...' if changes[5:] else ''}. "
            "Put the old ones back, or name a new --checkpoint_dir."
        )


def _shown(size):
    return "missing" if size is None else f"{size:,} bytes long"
