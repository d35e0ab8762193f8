"""params.json: the settings of a run, beside its checkpoints. A run resumes with the same ones."""

import json
import os
import uuid

import tensorflow.compat.v1 as tf

from examples.runs import json_file
from examples.runs.flags import SettingsError

_NAME = "params.json"
# Settings that affect neither the result nor the checkpoints.
_MAY_CHANGE = ("checkpoint_dir", "tpu", "gcp_project", "tpu_zone", "preset")


def path(checkpoint_dir):
    """Returns the path of the settings of the run in a directory, which need not exist."""
    return os.path.join(checkpoint_dir, _NAME)


def save(params):
    """Writes settings to params.json in their `checkpoint_dir`, which is made if need be."""
    write_json(params, params["checkpoint_dir"], _NAME)


def read(directory):
    """Returns the settings of the run in a directory.

    Raises:
        SettingsError: If there are none that can be read.
    """
    try:
        return _object(path(directory))
    except (tf.errors.OpError, json_file.JsonError) as error:
        reason = json_file.reason(error)
        raise SettingsError(
            f"The settings of a run must be in its directory, but {path(directory)} cannot be "
            f"read: {reason}. Name the --checkpoint_dir of a run."
        ) from error


def write_json(value, directory, name):
    """Writes a JSON file, sorted and indented by 2, that is there as a whole or not at all."""
    # Of a name that nobody can have made a link of.
    written = os.path.join(directory, f".{name}.{uuid.uuid4().hex}")
    try:
        tf.io.gfile.makedirs(directory)
        with tf.io.gfile.GFile(written, "w") as file:
            file.write(json.dumps(value, indent=2, sort_keys=True) + "\n")
        tf.io.gfile.rename(written, os.path.join(directory, name), overwrite=True)
    except tf.errors.OpError as error:
        raise SettingsError(
            f"--checkpoint_dir must be a directory that can be written to, but {directory} is not: "
            f"{error.message}. Name another one."
        ) from error


def read_metrics(directory, name, step):
    """Returns the metrics in a JSON file if they belong to the checkpoint of a step, else None."""
    try:
        metrics = _object(os.path.join(directory, name))
    except (tf.errors.OpError, json_file.JsonError):
        return None
    return metrics if metrics.get("global_step") == step else None


def _object(path):
    """Returns the dict in a JSON file; raises as `json_file.read`."""
    value = json_file.read(path)
    if not isinstance(value, dict):
        raise json_file.JsonError(f"It must hold an object, but holds a {type(value).__name__}")
    return value


def check_same(params, may_change=(), may_grow=(), added_later=None):
    """Checks that the run in `params['checkpoint_dir']`, if there is one, had the same settings.

    Devices may be others of the same number: then the towers do the same. A run begins with its
    first checkpoint: before that, there is nothing to resume, and no reason to keep its settings.

    Args:
        params: Dict of settings that can be written as JSON.
        may_change: Names of settings that may differ this time.
        may_grow: Names of those that may be larger numbers than before.
        added_later: Dict of settings that older runs lack, with the values that they stand for.

    Raises:
        SettingsError: If some differ; names each, its old and its new value.
    """
    directory = params["checkpoint_dir"]
    if not tf.io.gfile.exists(path(directory)):
        if tf.train.latest_checkpoint(directory):
            raise SettingsError(
                f"A run resumes with the settings it started with, but {directory} has checkpoints "
                f"and no {_NAME} that tells them. Name a new --checkpoint_dir."
            )
        return
    if not tf.train.latest_checkpoint(directory):
        return
    try:
        before = _object(path(directory))
    except (tf.errors.OpError, json_file.JsonError) as error:
        reason = json_file.reason(error)
        raise SettingsError(
            f"{path(directory)} must be the settings of the run, but cannot be read: {reason}. "
            "Name a new --checkpoint_dir."
        ) from error
    before = {**(added_later or {}), **before}
    changed = changes(before, params, (*_MAY_CHANGE, *may_change), may_grow)
    if changed:
        raise SettingsError(
            f"A run resumes with the settings it started with, but those in {directory} differ: "
            f"{'; '.join(changed)}. Pass the old values, or name a new --checkpoint_dir."
        )


def changes(before, now, may_change=(), may_grow=()):
    """Returns how settings differ, a list of texts: name, old and new value of each.

    Args:
        before: Dict of settings, as read from JSON.
        now: Dict of settings that can be written as JSON.
        may_change: Names of settings that may differ.
        may_grow: Names of those that may be larger numbers than before.
    """
    now = json.loads(json.dumps(now))
    return [
        f"{name} was {_shown(before, name)} and is {_shown(now, name)}"
        for name in sorted({*before, *now})
        if name not in may_change
        and not _is_same(name, before, now)
        and not (name in may_grow and _is_larger(name, before, now))
    ]


def _is_same(name, before, now):
    if (name in before) != (name in now):
        return False
    if name == "devices" and isinstance(before[name], list):
        return len(before[name]) == len(now[name])
    return before[name] == now[name]


def _is_larger(name, before, now):
    values = [settings.get(name) for settings in (before, now)]
    return all(isinstance(value, (int, float)) for value in values) and values[1] > values[0]


def _shown(settings, name):
    return json.dumps(settings[name]) if name in settings else "not set"
