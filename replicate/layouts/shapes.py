"""Shapes of outputs, of those axes whose size the graph does not know, from shapes of inputs.

What is not in the table has a symbol of its own for each such size.
"""

from __future__ import annotations

from replicate.layouts import (  # noqa: F401  # Fill the table.
    shapes_of_layers,
    shapes_of_loops,
    shapes_of_parsing,
    shapes_of_parts,
    shapes_of_sparse,
)
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.shapes_of_arrays import partly_resolved, resolved
from replicate.layouts.shapes_of_math import broadcast_shapes
from replicate.layouts.shapes_table import Shape, function_of, summands_of
from replicate.layouts.values_table import evaluate

_elementwise: set[str] = set()


def elementwise(*types: str) -> None:
    """Says that operations broadcast their inputs to the shape of their output."""
    _elementwise.update(types)


def has(name: str) -> bool:
    """Whether shapes of the results of a type of operations are followed."""
    return name in _elementwise or function_of(name) is not None


def shape_of(op: Op, index: int) -> tuple[Dim | None, ...] | None:
    """Returns the shape of output `index`, with None for sizes that are not known."""
    function = function_of(op.type)
    if function is not None:
        found = function(op, index)
    elif op.type in _elementwise:
        found = _broadcast(op)
    else:
        found = _of_integers(op, index)
    return None if found is None else tuple(found)


def _broadcast(op: Op) -> Shape | None:
    known = [op.dims(index) for index in range(len(op.inputs))]
    given = [shape for shape in known if shape is not None]
    return broadcast_shapes(list(given)) if len(given) == len(known) else None


def _of_integers(op: Op, index: int) -> Shape | None:
    """Returns the shape of integers that are known."""
    made = evaluate(op) if op.outputs[index].dtype.is_integer else None
    value = None if made is None else made[index]
    return None if value is None else value.shape


__all__ = ["elementwise", "has", "partly_resolved", "resolved", "shape_of", "summands_of"]
