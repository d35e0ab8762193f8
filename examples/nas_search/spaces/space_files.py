"""Spaces of one's own, in files that `schema_io` wrote. They hold data; nothing in them is run.

A space of a file is known by its *identity*, a text like `space:1a2b3c4d5e6f` with a hash of its
content: so the same space in another file is the same, and a changed one is another. Settings of
runs have the identity in place of a name, and each run keeps a copy in its directory, space.json,
so that the file may go. Identities are known in a process once `read` or `read_kept` has read them.
"""

import hashlib
import os
from typing import Dict

import tensorflow.compat.v1 as tf

from examples.nas_search import controller, schema_io
from examples.nas_search.rematlib import mobile_model_v3
from examples.nas_search.spaces import space_check
from examples.runs import json_file
from examples.runs.errors import UserError
from examples.runs.flags import SettingsError

KEPT = "space.json"
_PREFIX = "space:"
_DIGITS = 12  # of the hash
# Texts of the spaces that were read, by identity, which tells all of them: no entry ever changes.
_read: Dict[str, str] = {}


def is_file(ssd):
    """Whether `ssd` is the path of a file and no name."""
    return isinstance(ssd, str) and ssd.endswith(".json")


def has_identity(ssd):
    """Whether `ssd` is the identity of a space of a file, known or not."""
    return isinstance(ssd, str) and ssd.startswith(_PREFIX)


def is_known(ssd):
    """Whether `ssd` is an identity whose space was read in this process."""
    return ssd in _read


def read(path):
    """Reads a space; returns its identity.

    Args:
        path: Of a JSON file by `schema_io.save`.

    Raises:
        SettingsError: If there is no such file, or it holds no space.
    """
    try:
        space = schema_io.deserialize(json_file.read_text(path))
        space_check.check_space(space)
    except (tf.errors.OpError, json_file.JsonError) as error:
        raise SettingsError(
            "A space of your own must be a JSON file with a ConvTowerSpec, by `schema_io.save`, "
            f"but {path!r} cannot be used: {json_file.reason(error)}. Name the file, or write it "
            "again."
        ) from error
    text = schema_io.serialize(space)
    identity = _PREFIX + hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    _read[identity] = text
    return identity


def space_of(identity):
    """Returns the space of an identity, a new `ConvTowerSpec`.

    Raises:
        ValueError: If this process has not read it.
    """
    if identity not in _read:
        raise ValueError(
            f"`ssd` must be a space that was read, but {identity!r} was not. Pass the file that it "
            "is in, or the directory of a run that keeps a copy."
        )
    return schema_io.deserialize(_read[identity])


def resolve(ssd, directory=None):
    """Returns the settings that tell the space.

    Args:
        ssd: A name, or the path of a file.
        directory: Of the run, which may keep a copy that stands in for a file that has gone; or
            None.

    Returns:
        Dict of `ssd`, and only for a file `ssd_file`, its path; `ssd` is then an identity.

    Raises:
        SettingsError: If the file is missing or holds no space, or if the run in the directory
            began with another space.
    """
    if not is_file(ssd):
        return {"ssd": ssd}
    copy = os.path.join(directory, KEPT) if directory else None
    has_copy = copy and tf.io.gfile.exists(copy) and tf.train.latest_checkpoint(directory)
    if not has_copy:
        return {"ssd": read(ssd), "ssd_file": ssd}
    kept = read(copy)
    if tf.io.gfile.exists(ssd) and read(ssd) != kept:
        raise SettingsError(
            f"--ssd must be the space that the run in {directory} began with, but {ssd} was "
            f"changed meanwhile. Name a new --checkpoint_dir, or pass --ssd {copy}, a copy of the "
            "space as it was."
        )
    return {"ssd": kept, "ssd_file": ssd}


def keep(ssd, directory):
    """Writes the copy of a run, if it has the space of a file."""
    if has_identity(ssd):
        schema_io.save(space_of(ssd), directory, KEPT)


def read_kept(ssd, directory):
    """Reads the copy of a run, if it has the space of a file.

    Args:
        ssd: What its settings say: a name, or an identity.
        directory: Of the run.

    Raises:
        SettingsError: If there is no copy, or it is of another space.
    """
    if not has_identity(ssd):
        return
    path = os.path.join(directory, KEPT)
    found = read(path)
    if found != ssd:
        raise SettingsError(
            f"{path} must be the space of the run, {ssd}, but was changed: it is {found}. Name "
            "another directory."
        )


def check_builds(ssd, image_shape, num_classes):
    """Checks that networks of a space of a file can be built for some images; names pass.

    Args:
        ssd: Name or identity.
        image_shape: Height, width and channels of an image.
        num_classes: Number of classes.

    Raises:
        SettingsError: If they cannot.
    """
    if not has_identity(ssd):
        return
    try:
        with tf.Graph().as_default():
            network, _ = controller.independent_sample(space_of(ssd))
            model = mobile_model_v3.get_model(
                network, force_stateless_batch_norm=True, num_classes=num_classes
            )
            images = tf.zeros([1, *image_shape])
            model.build(images.shape)
            model.apply(images, training=True)
    except UserError:
        raise
    # Whatever it is that layers do not expect: nobody wrote them for what a file may hold.
    except Exception as error:
        raise SettingsError(
            f"--ssd must be a space whose networks can be built for images of {list(image_shape)} "
            f"and {num_classes} classes, but they cannot: {error} Change the space."
        ) from error
