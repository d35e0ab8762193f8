"""Finds damaged checkpoints in a directory, and makes training fall back to a whole one.

A checkpoint is *damaged* if its index cannot be read, if a data file is missing or shorter than the
index says, or if a tensor cannot be read: each has a checksum. Tensors are only read if the
checkpoint has at most `READ_BYTES` of data.
"""

from __future__ import annotations

import os
import re
from typing import Iterable

import tensorflow.compat.v1 as tf

READ_BYTES = 2**30
"""Size in bytes up to which a checkpoint's data are read to see whether it is whole."""

_BASENAME = r"model\.ckpt"  # As Estimators name them; a pattern.


class FallBackHook(tf.train.SessionRunHook):
    """Calls `fall_back` before a session restores; for the chief."""

    def __init__(self, model_dir: str) -> None:
        self._model_dir = model_dir

    def begin(self) -> None:
        """Falls back. Called by the session before it is created."""
        fall_back(self._model_dir)


def fall_back(model_dir: str) -> str | None:
    """Makes the newest whole checkpoint the one that training resumes from.

    If the file `checkpoint` names another one or cannot be read, a warning lists the damaged
    checkpoints, with the defect of each, and names the one that is used. The files of damaged
    checkpoints are kept under names that end in `.damaged`. `replicate_model_fn` calls this before
    it trains.

    Args:
        model_dir: The Estimator's directory, a str. It need not exist.

    Returns:
        The path of the checkpoint, a str; None if there is none, so that training starts from the
        beginning.

    Raises:
        RuntimeError: If there are checkpoints of a step other than 0, but none is whole.
    """
    named, kept = _read_state(model_dir)
    if named is not None and defect(named) is None:
        return named
    if named is not None and _step(named) < 0:
        named = None  # Without a step it does not tell which checkpoints are older.
    candidates = _candidates(model_dir, named, kept)
    damaged: dict[str, str] = {}
    whole = None
    for path in candidates:
        reason = defect(path)
        if reason is None:
            whole = path
            break
        damaged[path] = reason
    # A damaged checkpoint of step 0 loses no training: a process may have died during the first
    # save.
    if whole is None and any(_step(path) != 0 for path in damaged):
        raise RuntimeError(
            f"Training resumes from a whole checkpoint, but none in {model_dir!r} is:\n"
            f"{_listed(damaged)}\nPut a copy of one there, or train from the beginning in another "
            "`model_dir`."
        )
    if whole is None and not damaged:
        return None
    for path in damaged:
        # The state file may name files elsewhere, which are not the training's to rename.
        if os.path.realpath(os.path.dirname(path)) == os.path.realpath(model_dir):
            _put_aside(path)
    state = os.path.join(model_dir, "checkpoint")
    if whole is None:
        if tf.gfile.Exists(state):
            tf.gfile.Remove(state)
    else:
        # Damaged checkpoints are newer than the whole one, so only they are dropped from the list.
        older = candidates[candidates.index(whole) :]
        tf.train.update_checkpoint_state(model_dir, whole, older[::-1])
    tf.logging.warning(
        "replicate: %s%s",
        f"{_listed(damaged)}\n" if damaged else f"{state} is missing or cannot be read. ",
        f"Training resumes from {whole} instead."
        if whole
        else "Training starts from the beginning: the damaged checkpoint was saved at step 0.",
    )
    return whole


def defect(path: str) -> str | None:
    """Returns the defect of a checkpoint.

    Args:
        path: Its path without the endings of its files, e.g. `"run/model.ckpt-10"`.

    Returns:
        A str that describes the defect; None if the checkpoint is whole.
    """
    try:
        reader = tf.train.load_checkpoint(path)
        shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        numbers = [name for name in shapes if _is_number(dtypes[name])]
        needed = sum(tf.TensorShape(shapes[n]).num_elements() * dtypes[n].size for n in numbers)
        sizes = [tf.gfile.Stat(file).length for file in _files(path) if ".data-" in file]
        if sizes and sum(sizes) < needed:
            return f"its data are {sum(sizes)} bytes, but its index lists {needed}"
        if sum(sizes) <= READ_BYTES:
            for name in numbers:
                reader.get_tensor(name)
    except MemoryError:  # TensorFlow believes a length in the index, however large it is.
        return "its index asks for more memory than there is"
    except (tf.errors.OpError, IndexError, ValueError, RuntimeError) as error:
        return getattr(error, "message", None) or str(error)
    return None


def _read_state(model_dir: str) -> tuple[str | None, list[str]]:
    """Returns the paths of the latest checkpoint and of all, as the state file lists them."""
    try:
        state = tf.train.get_checkpoint_state(model_dir)
    except (ValueError, UnicodeDecodeError):  # The file is empty, or not text.
        state = None
    if state is None:
        return None, []
    # A damaged state file may have names that no file can have.
    named, *kept = [
        name if "\0" not in name else None
        for name in (state.model_checkpoint_path, *state.all_model_checkpoint_paths)
    ]
    return named, [name for name in kept if name is not None]


def _candidates(model_dir: str, named: str | None, kept: Iterable[str]) -> list[str]:
    """Returns paths of checkpoints, newest first, none newer than the one in the state file."""
    # A damaged state file may have a name that is almost right.
    prefix = "" if named is None else re.escape(re.sub(r"-\d+$", "", os.path.basename(named)))
    paths = {*kept, *([] if named is None else [named])}
    if tf.gfile.IsDirectory(model_dir):
        for file in tf.gfile.ListDirectory(model_dir):
            # A checkpoint without an index was never finished.
            if re.match(rf"({prefix}|{_BASENAME})-\d+\.index$", file):
                paths.add(os.path.join(model_dir, file[: -len(".index")]))
    last = None if named is None else _step(named)
    early = [path for path in paths if last is None or _step(path) <= last]
    return sorted(early, key=lambda path: (_step(path), path == named, path), reverse=True)


def _step(path: str) -> int:
    """Returns the global step in the path of a checkpoint, -1 if there is none."""
    found = re.search(r"-(\d+)$", path)
    return int(found.group(1)) if found else -1


def _files(path: str) -> list[str]:
    """Returns the paths of the files of a checkpoint."""
    directory, name = os.path.split(path)
    directory = directory or "."
    pattern = re.compile(re.escape(name) + r"\.(index|meta|data-\d+-of-\d+)")
    # The state file of a directory that was moved may name one that is gone.
    files = tf.gfile.ListDirectory(directory) if tf.gfile.IsDirectory(directory) else []
    return [os.path.join(directory, file) for file in files if pattern.fullmatch(file)]


def _is_number(dtype: tf.DType) -> bool:
    return dtype.is_numpy_compatible and dtype != tf.string


def _put_aside(path: str) -> None:
    for file in _files(path):
        tf.gfile.Rename(file, f"{file}.damaged", overwrite=True)


def _listed(damaged: dict[str, str]) -> str:
    return "\n".join(f"{path} is damaged: {reason}." for path, reason in damaged.items())
