"""Integers of a graph that are known before it runs: shapes, axes, and values made from them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from replicate.compat import graph as graph_lib
from replicate.layouts import values_arithmetic, values_arrangement  # noqa: F401  # Fill the table.
from replicate.layouts.rule import Op
from replicate.layouts.values_of_shapes import broadcast_shapes
from replicate.layouts.values_table import LARGEST, Values, array, evaluate, least

# Limit of the depth of recursion for integers of which only some are known.
_DEEPEST = 20


def values_of(op: Op) -> Values:
    """Returns the integers of each output of an operation, with None for unknown outputs."""
    made = evaluate(op)
    if made is None:
        return None
    return [None if value is None or None in list(value.flat) else value for value in made]


def entries(op: Op, index: int) -> np.ndarray[Any, Any] | None:
    """Returns the integers of an input, with None in place of each that is not known.

    Returns None if not even their number is known, or if there are more than `LARGEST`.
    """
    return _entries(op.inputs[index], op, {}, _DEEPEST)


def _entries(
    tensor: Any, op: Op, found: dict[Any, np.ndarray[Any, Any] | None], depth: int
) -> np.ndarray[Any, Any] | None:
    key = graph_lib.reference(tensor)
    if key not in found:
        value = op.value_of(tensor)
        if value is None and tensor.dtype.is_integer:
            if depth:
                inner = functools.partial(_entries, op=op, found=found, depth=depth - 1)
                made = evaluate(op.beside(tensor.op, inner))
                value = None if made is None else made[tensor.value_index]
            count = tensor.shape.num_elements()
            if value is None and count is not None and count <= LARGEST:
                value = array([None] * count, tensor.shape.as_list())
        found[key] = value
    return found[key]


__all__ = ["LARGEST", "Values", "array", "broadcast_shapes", "entries", "least", "values_of"]
