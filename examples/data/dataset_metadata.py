"""Facts about its data that a run keeps in its checkpoint directory: files, counts, classes."""

import os

import tensorflow.compat.v1 as tf

from examples.data.errors import DataError
from examples.runs import json_file

DIRECTORY = "dataset"
CLASSES = "classes.json"  # a dict whose entry `classes` is a list of names, by label


def class_names(checkpoint_dir):
    """Returns the names of the classes, a list by label; None if the run did not keep them."""
    path = os.path.join(checkpoint_dir, DIRECTORY, CLASSES)
    if not tf.io.gfile.exists(path):
        return None
    return read(path, has_classes)["classes"]


def has_classes(value):
    """Whether a value has names of classes, as `class_names` returns them."""
    names = value.get("classes") if isinstance(value, dict) else None
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def is_shape(value):
    """Whether a value is the height, the width and the channels of an image."""
    is_list = isinstance(value, list) and len(value) == 3
    return is_list and all(type(size) is int and size > 0 for size in value)


def read(path, is_right):
    """Returns the value of a JSON file that a run kept.

    Args:
        path: Of the file.
        is_right: Function of the value that says whether it is what was written.

    Raises:
        DataError: If it cannot be read, or is not right.
    """
    try:
        value = json_file.read(path)
        reason = None if is_right(value) else "it was changed"
    except (tf.errors.OpError, json_file.JsonError) as error:
        reason = json_file.reason(error)
    if reason is not None:
        raise DataError(
            f"{path} must be what the run found out about its data, but cannot be used: {reason}. "
            "Name a new --checkpoint_dir."
        )
    return value
