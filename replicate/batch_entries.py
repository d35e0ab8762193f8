"""What the entries of a batch are: whole features, and Python lists that are data."""

import collections.abc
import copy
import numbers
import reprlib

import numpy as np
import tensorflow.compat.v1 as tf


def whole_paths(names):
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
            "`whole_features` must be a list of names of features, but is "
            f"{given if is_iterable else names!r}. Pass names like ['class_weights'], a list also "
            "if there is only one."
        )
    prefixes = ("features/", "labels/")
    return tuple(name if name.startswith(prefixes) else f"features/{name}" for name in given)


def is_at_or_below(path, name):
    """Whether `path` is that of `name`, or of what is in it."""
    return path == name or path.startswith(name + "/")


def check_whole(whole, paths, labels):
    """Raises if a path in `whole` is none of the batch; without labels, none of them is."""
    for name in whole:
        if labels is None and name.startswith("labels/"):
            continue
        if not any(is_at_or_below(path, name) for path in paths):
            raise ValueError(
                "Each name in `whole_features` must be that of an entry of the batch, but "
                f"{name!r} is none of {', '.join(paths)}. Name one of these, without 'features/' "
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
    if isinstance(structure, collections.abc.Mapping):
        changed = copy.copy(structure)  # A `defaultdict` keeps its default.
        changed.update(made)
        return changed
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
