"""The table of functions that infer integers, by type of operation.

Each takes an operation and returns its outputs as arrays of `Dim`s: object arrays, since a `Dim`
may hold symbols, with None for unknown entries. The result must hold for all values of the symbols,
also 0 and 1, for which the operation itself does not fail.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, List, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.layouts.dims import ROWS, Dim, Monomial
from replicate.layouts.rule import Op

Values = Optional[List[Optional["np.ndarray[Any, Any]"]]]
Function = Callable[[Op], Values]

# The most entries of a tensor whose integers are inferred. Shapes and axes are far smaller.
LARGEST = 1024

_functions: dict[str, Function] = {}


def values(*types: str) -> Callable[[Function], Function]:
    """Registers a function for types of operations."""

    def enter(function: Function) -> Function:
        _functions.update(dict.fromkeys(types, function))
        return function

    return enter


def evaluate(op: Op) -> Values:
    """Returns the integers of each output, with None for unknown entries and outputs."""
    function = _functions.get(op.type)
    if function is None:
        return None
    try:
        made = function(op)
    except (ValueError, IndexError, ZeroDivisionError):  # The graph fails, too, when it runs.
        return None
    if made is None or len(made) != len(op.outputs):
        return None
    return [_checked(value, tensor.dtype) for value, tensor in zip(made, op.outputs)]


def _checked(value: np.ndarray[Any, Any] | None, dtype: tf.DType) -> np.ndarray[Any, Any] | None:
    """Drops integers that do not fit their type, and arrays that are too large."""
    if value is None or not dtype.is_integer or value.size > LARGEST:
        return None
    entries = [entry if _fits(entry, dtype) else None for entry in value.flat]
    return array(entries, value.shape)


def _fits(entry: Dim | None, dtype: tf.DType) -> bool:
    number = entry.coefficient if isinstance(entry, Monomial) else entry or 0
    least, most = _range(dtype)
    # A product with sizes fits 4 bytes, or the graph itself is wrong; smaller types may overflow.
    return least <= number <= most and (entry == number or dtype.size >= 4)


@functools.lru_cache(maxsize=None)
def _range(dtype: tf.DType) -> tuple[int, int]:
    """Returns the range of a type of integers."""
    return int(dtype.min), int(dtype.max)


def array(
    entries: Sequence[Dim | None], shape: Sequence[int] | None = None
) -> np.ndarray[Any, Any]:
    """Returns `Dim`s as an array of `shape`, by default a vector."""
    made = np.empty(len(entries), object)
    for index, entry in enumerate(entries):
        made[index] = entry
    return made if shape is None else made.reshape(shape)


def as_array(entry: Any) -> np.ndarray[Any, Any]:
    """Returns an entry of an array, a `Dim` or None, as an array; an array as it is."""
    return entry if isinstance(entry, np.ndarray) else array([entry], ())


def plain(value: Any) -> np.ndarray[Any, Any]:
    """Returns an array of numbers as one of `Dim`s."""
    value = np.asarray(value)
    return array([int(entry) for entry in value.flat], value.shape)


def numbers(value: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any] | None:
    """Returns an array of integers, None unless all of them are known numbers."""
    if value is None or not all(isinstance(entry, int) for entry in value.flat):
        return None
    return value.astype(np.int64)


def least(size: Dim | None) -> int | None:
    """Returns the least value of a size, where `ROWS` is at least 1 and other symbols 0.

    Returns None if the size is unknown or has a negative coefficient.
    """
    if not isinstance(size, Monomial):
        return size
    if size.coefficient < 0:
        return None
    return size.coefficient if set(size.symbols) == {ROWS} else 0
