"""Reads JSON that may come from elsewhere, whatever it holds.

A value takes little more memory than the file, can be walked recursively, and has no number or text
that the rest of the program cannot take.
"""

import json

import tensorflow.compat.v1 as tf

_MAX_BYTES = 2**24
_MAX_DEPTH = 100


def read(path):
    """Returns the value in a file.

    Raises:
        ValueError: As `loads`, or if it is larger than 16 MiB.
        tf.errors.OpError: If it cannot be read.
    """
    return loads(read_text(path))


def read_text(path):
    """Returns the text of a file in UTF-8; raises as `read`."""
    with tf.io.gfile.GFile(path, "rb") as file:
        contents = file.read(_MAX_BYTES + 1)
    if len(contents) > _MAX_BYTES:
        raise ValueError(f"A file of JSON must have {_MAX_BYTES:,} bytes at most, but has more")
    return contents.decode()


def loads(text):
    """Returns the value that a text stands for, as `json.loads` does.

    Raises:
        ValueError: If it is no JSON, has more than 100 levels of lists and objects, an integer of
            more than 64 bits, or a text with half of a surrogate pair.
    """
    try:
        value = json.loads(text, parse_int=_integer)
    except RecursionError:
        raise _too_deep() from None
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
        level = [inner for each in level for inner in _parts(each)]
        if not level:
            return value
    raise _too_deep()


def _parts(value):
    """Returns what is directly in a value."""
    if isinstance(value, str):
        value.encode()  # It raises what is a `ValueError`.
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else ()


def _integer(digits):
    value = int(digits) if len(digits) <= 20 else None
    if value is None or not -(2**63) <= value < 2**63:
        raise ValueError(f"Integers must have 64 bits at most, but one is {digits[:40]}")
    return value


def _too_deep():
    return ValueError(f"Lists and objects must be in one another {_MAX_DEPTH} times at most")
