"""What the entries of a batch are: whole features, axes of rows, and Python lists that are data."""

import collections.abc
import copy
import numbers
import reprlib

import numpy as np
import tensorflow.compat.v1 as tf

_BOTH = ("features", "labels")


def unsplit_paths(names):
    """Returns a tuple of the paths of what goes to every tower whole, like "features/table".

    Args:
        names: Iterable of paths, as messages about batches have them: "features/extra/table" or
            "labels/table". Those that begin with neither are of features: "extra/table". A path of
            a dict or another structure is that of all there is in it.

    Raises:
        TypeError: If it is something else, such as a single name.
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


def _path_of(name):
    return name if name.startswith(("features/", "labels/")) else f"features/{name}"


def axes_by_path(batch_axis):
    """Returns a dictionary of axes of rows by path; what is named nowhere in it has axis 0.

    Args:
        batch_axis: An integer, the axis of all there is in the batch, or a dictionary of integers
            by names as `unsplit_paths` takes them. "features" and "labels" mean all entries of
            these. Of several names that an entry is in, the longest counts.

    Raises:
        TypeError: If it is something else.
    """
    if _is_integer(batch_axis):
        return dict.fromkeys(_BOTH, int(batch_axis))
    is_mapping = isinstance(batch_axis, collections.abc.Mapping)
    if not is_mapping or not all(
        isinstance(name, str) and _is_integer(axis) for name, axis in batch_axis.items()
    ):
        raise TypeError(
            "`batch_axis` must be an integer, the axis of rows of all tensors of a batch, or a "
            f"dictionary of integers by names of its entries, but is {batch_axis!r}. Pass e.g. "
            "{'frames': 1}, and leave out what has its rows on axis 0."
        )
    return {
        name if name in _BOTH else _path_of(name): int(axis) for name, axis in batch_axis.items()
    }


def axis_at(path, axes):
    """Returns the axis of rows of an entry, of what `axes_by_path` returned."""
    names = [name for name in axes if is_at_or_below(path, name)]
    return axes[max(names, key=len)] if names else 0


def _is_integer(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_at_or_below(path, name):
    """Whether `path` is that of `name`, or of what is in it."""
    return path == name or path.startswith(name + "/")


def check_names(argument, names, paths, labels):
    """Raises if a path is none of the batch; without labels, none of theirs is, and may be.

    Args:
        argument: The name of the argument that the paths are of.
        names: The paths.
        paths: Those of the batch.
        labels: The batch's labels.
    """
    for name in names:
        if name in _BOTH or (labels is None and name.startswith("labels/")):
            continue
        if not any(is_at_or_below(path, name) for path in paths):
            raise ValueError(
                f"Each name in `{argument}` must be that of an entry of the batch, but "
                f"{name!r} is not in {', '.join(paths)}. Name one of these, without 'features/' "
                "if you like, or a dict that holds some."
            )


def lists_as_tensors(structure, path, whole, found):
    """Returns a nested structure with tensors for the Python lists that are data.

    Args:
        structure: As `features` of `sharding.shard`. It is not changed.
        path: Its path, for messages.
        whole: Paths of what stays as it is.
        found: Set to which the paths of such lists are added.
    """
    if path in whole:
        return structure
    if isinstance(structure, list) and _is_data(structure):
        found.add(path)
        return _list_as_tensor(structure, path)
    if isinstance(structure, collections.abc.Mapping):
        parts = dict(structure)
    elif hasattr(structure, "_fields"):
        parts = dict(zip(structure._fields, structure))
    elif isinstance(structure, (list, tuple)):
        parts = dict(enumerate(structure))
    else:
        return structure
    made = {
        key: lists_as_tensors(part, f"{path}/{key}", whole, found) for key, part in parts.items()
    }
    if all(made[key] is part for key, part in parts.items()):
        return structure  # Whatever its class is, it need not be made again.
    if isinstance(structure, collections.abc.MutableMapping):
        changed = copy.copy(structure)  # A `defaultdict` keeps its default.
        changed.update(made)
        return changed
    if isinstance(structure, collections.abc.Mapping):
        return type(structure)(made)
    make = getattr(structure, "_make", type(structure))
    return make(made.values())


def _is_data(rows):
    """Whether a Python list is data or seems to be: it holds values alone, or some beside others.

    The list [tensor, [1, 2]] is a structure, with data in it.
    """
    entries = list(_entries(rows))
    return bool(entries) and (all(map(_is_value, entries)) or any(map(_is_value, rows)))


def _entries(rows):
    """Yields what lists, and tuples, which rows may be, hold, however deep."""
    for part in rows:
        if isinstance(part, list) or type(part) is tuple:
            yield from _entries(part)
        else:
            yield part


def _is_value(entry):
    """Whether `entry` is a number or a string, of Python or NumPy."""
    if isinstance(entry, np.ndarray):
        return entry.ndim == 0
    return isinstance(entry, (numbers.Number, str, bytes, np.generic))


def _list_as_tensor(value, path):
    """Returns a Python list with numbers or strings as a tensor."""
    others = {type(entry).__name__ for entry in _entries(value) if not _is_value(entry)}
    # Scalar tensors among numbers could be converted, but are refused like all others.
    cause = f"it holds {', '.join(sorted(others))} besides" if others else None
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
