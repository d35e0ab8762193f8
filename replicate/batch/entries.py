"""Entries of a batch: which are not split, their axes of rows, and Python lists that are data."""

from __future__ import annotations

import collections.abc
import copy
import numbers
import reprlib
from typing import Any, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

_BOTH = ("features", "labels")


def unsplit_paths(names: Iterable[str]) -> tuple[str, ...]:
    """Returns a tuple of the paths of entries that every tower gets complete.

    Args:
        names: Iterable of paths, as messages about batches have them: "features/extra/table" or
            "labels/table". A path that begins with neither "features/" nor "labels/" is one of
            features: "extra/table". The path of a dict or another structure means all entries of
            it.

    Raises:
        TypeError: If `names` is anything else, such as a single name.
    """
    is_iterable = isinstance(names, collections.abc.Iterable) and not isinstance(names, str)
    given = tuple(names) if is_iterable else ()
    if not is_iterable or not all(isinstance(name, str) for name in given):
        raise TypeError(
            "`unsplit_features` must be a list of names of features, but is "
            f"{given if is_iterable else names!r}. Pass names like ['class_weights'], a list also "
            "if there is only one."
        )
    return tuple(map(_path_of, given))


def _path_of(name: str) -> str:
    return name if name.startswith(("features/", "labels/")) else f"features/{name}"


def axes_by_path(batch_axis: int | Mapping[str, int]) -> dict[str, int]:
    """Returns a dictionary of axes of rows by path; entries that no path names have axis 0.

    Args:
        batch_axis: An integer, the axis of all tensors of the batch, or a dictionary of integers by
            names as `unsplit_paths` takes them. "features" and "labels" mean all entries of these.
            If several names apply to an entry, the longest counts.

    Raises:
        TypeError: If it is anything else.
    """
    if _is_integer(batch_axis):
        axis: Any = batch_axis
        return dict.fromkeys(_BOTH, int(axis))
    if not isinstance(batch_axis, collections.abc.Mapping) or not all(
        isinstance(name, str) and _is_integer(axis) for name, axis in batch_axis.items()
    ):
        raise TypeError(
            "`batch_axis` must be an integer, the axis of rows of all tensors of a batch, or a "
            f"dictionary of integers by names of its entries, but is {batch_axis!r}. Pass e.g. "
            "{'frames': 1}, and leave out entries that have their rows on axis 0."
        )
    return {
        name if name in _BOTH else _path_of(name): int(axis) for name, axis in batch_axis.items()
    }


def axis_at(path: str, axes: Mapping[str, int]) -> int:
    """Returns the axis of rows of the entry at `path`; `axes` comes from `axes_by_path`."""
    names = [name for name in axes if is_at_or_below(path, name)]
    return axes[max(names, key=len)] if names else 0


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_at_or_below(path: str, name: str) -> bool:
    """Whether `path` is that of `name`, or of an entry in it."""
    return path == name or path.startswith(name + "/")


def check_names(argument: str, names: Iterable[str], paths: Sequence[str], labels: Any) -> None:
    """Raises if the batch has no entry at a path that an argument names.

    Args:
        argument: The name of the argument.
        names: The paths that it names.
        paths: The paths of the batch.
        labels: The batch's labels. If they are None, paths of labels are allowed.

    Raises:
        ValueError: If the batch has no entry at one of `names`.
    """
    for name in names:
        # Batches for predictions have no labels, but the same arguments.
        if name in _BOTH or (labels is None and name.startswith("labels/")):
            continue
        if not any(is_at_or_below(path, name) for path in paths):
            raise ValueError(
                f"Each name in `{argument}` must be that of an entry of the batch, but "
                f"{name!r} is not in {', '.join(paths)}. Name one of these, without 'features/' "
                "if you like, or a dict that holds some."
            )


def lists_as_tensors(structure: Any, path: str, unsplit: Sequence[str], found: set[str]) -> Any:
    """Returns a nested structure with tensors in place of Python lists that are data.

    Args:
        structure: As `features` of `sharding.shard`. It is not changed.
        path: Its path, for messages.
        unsplit: Paths of entries that stay as they are.
        found: Set to which the paths of such lists are added.

    Raises:
        ValueError: If a list that is data cannot be converted to a tensor.
    """
    if path in unsplit:
        return structure
    if isinstance(structure, list) and _is_data(structure):
        found.add(path)
        return _list_as_tensor(structure, path)
    parts: dict[Any, Any]
    if isinstance(structure, collections.abc.Mapping):
        parts = dict(structure)
    elif hasattr(structure, "_fields"):
        parts = dict(zip(structure._fields, structure))
    elif isinstance(structure, (list, tuple)):
        parts = dict(enumerate(structure))
    else:
        return structure
    made = {
        key: lists_as_tensors(part, f"{path}/{key}", unsplit, found) for key, part in parts.items()
    }
    if all(made[key] is part for key, part in parts.items()):
        return structure  # An unchanged structure is returned as it is, whatever its class is.
    if isinstance(structure, collections.abc.MutableMapping):
        changed: Any = copy.copy(structure)  # A `defaultdict` keeps its default.
        changed.update(made)
        return changed
    make: Any = type(structure)
    if isinstance(structure, collections.abc.Mapping):
        return make(made)
    make = getattr(structure, "_make", make)
    return make(made.values())


def _is_data(rows: list[Any]) -> bool:
    """Whether a Python list is data: all its entries are values, or at least one at its top level.

    The list [tensor, [1, 2]] is a structure that holds data.
    """
    entries = list(_entries(rows))
    return bool(entries) and (all(map(_is_value, entries)) or any(map(_is_value, rows)))


def _entries(rows: Iterable[Any]) -> Iterator[Any]:
    """Yields the entries of lists and of the tuples and lists in them, at any depth."""
    for part in rows:
        if isinstance(part, list) or type(part) is tuple:
            yield from _entries(part)
        else:
            yield part


def _is_value(entry: Any) -> bool:
    """Whether `entry` is a number or a string, of Python or NumPy."""
    if isinstance(entry, np.ndarray):
        return entry.ndim == 0
    return isinstance(entry, (numbers.Number, str, bytes, np.generic))


def _list_as_tensor(value: list[Any], path: str) -> tf.Tensor:
    """Returns a Python list of numbers or strings as a tensor."""
    others = {type(entry).__name__ for entry in _entries(value) if not _is_value(entry)}
    # Scalar tensors among numbers could be converted, but are refused like all other types.
    cause: Any = f"it also holds {', '.join(sorted(others))}" if others else None
    if not cause:
        try:
            return tf.convert_to_tensor(value)
        except (TypeError, ValueError, OverflowError) as error:
            cause = error
    raise ValueError(
        "A Python list of numbers or strings is data, with a row for each of its entries, so all "
        f"of them must be numbers, or all strings, and of the same shape, but {path}, a Python "
        f"list, is {reprlib.repr(value)}: {cause}. Pass an array or a tensor instead, or a tuple "
        "if its entries go to every tower."
    )
