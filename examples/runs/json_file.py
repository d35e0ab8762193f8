"""Reads JSON that may come from elsewhere, whatever it holds.

A value takes little more memory than the file, can be walked recursively, and has no number or text
that the rest of the program cannot take.
"""

import json
import math
import reprlib

import tensorflow.compat.v1 as tf

from examples.runs.errors import UserError

_MAX_BYTES = 2**24
_MAX_DEPTH = 100


class JsonError(UserError):
    """JSON does not hold what it should; says the rule, what it holds, and the way out.

    Attributes:
        fault: The rule and what it holds, a str without a full stop.
    """

    def __init__(self, fault, way_out="Let what wrote it write it again"):
        super().__init__(f"{fault}. {way_out}.")
        self.fault = fault


def reason(error):
    """Returns why a file cannot be read, a str without a full stop, for those who know a way out.

    Args:
        error: A `JsonError`, or a `tf.errors.OpError`.
    """
    return error.fault if isinstance(error, JsonError) else error.message


def read(path):
    """Returns the value in a file.

    Raises:
        JsonError: As `loads` and `read_text`.
        tf.errors.OpError: If it cannot be read.
    """
    return loads(read_text(path))


def read_text(path):
    """Returns the text of a file.

    Raises:
        JsonError: If it is larger than 16 MiB, or no UTF-8.
        tf.errors.OpError: If it cannot be read.
    """
    with tf.io.gfile.GFile(path, "rb") as file:
        contents = file.read(_MAX_BYTES + 1)
    if len(contents) > _MAX_BYTES:
        raise JsonError(f"A file of JSON must have {_MAX_BYTES:,} bytes at most, but has more")
    try:
        return contents.decode()
    except UnicodeDecodeError as error:
        raise JsonError(f"A file of JSON must be text in UTF-8, but is not: {error}") from None


def loads(text):
    """Returns the value that a text stands for, as `json.loads` does.

    Raises:
        JsonError: If it is no JSON, has more than 100 levels of lists and objects, an integer of
            more than 64 bits, a number that is not finite, or a text with half of a surrogate pair.
    """
    try:
        value = json.loads(text, parse_int=_integer, parse_float=_float, parse_constant=_float)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        shown = reprlib.repr(text)
        raise JsonError(f"A text must be JSON, but {shown} is not: {error}") from None
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
        level = [inner for each in level for inner in _parts(each)]
        if not level:
            return value
    raise _too_deep()


def _parts(value):
    """Returns what is directly in a value."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise JsonError(f"Texts must have whole characters, but one has not: {error}") from None
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else ()


def _integer(digits):
    value = int(digits) if len(digits) <= 20 else None
    if value is None or not -(2**63) <= value < 2**63:
        raise JsonError(f"Integers must have 64 bits at most, but one is {digits[:40]}")
    return value


def _float(digits):
    value = float(digits)
    if not math.isfinite(value):
        raise JsonError(f"Numbers must be finite, but one is {digits[:40]}")
    return value


def _too_deep():
    return JsonError(f"Lists and objects must be in one another {_MAX_DEPTH} times at most")
