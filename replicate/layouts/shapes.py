"""Infers sizes of outputs that the graph does not know, from the shapes of inputs.

Outputs of operations that are not in the table get a new symbol for each such size.
"""

from __future__ import annotations

from replicate.layouts import (  # noqa: F401  # Fill the table.
    shapes_of_layers,
    shapes_of_loops,
    shapes_of_math,
    shapes_of_parsing,
    shapes_of_sparse,
)
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.shapes_of_arrays import resolved
from replicate.layouts.shapes_of_parts import alike
from replicate.layouts.shapes_table import Shape, function_of, rank_of, shapes, summands_of
from replicate.layouts.values import broadcast_shapes
from replicate.layouts.values_table import evaluate


def elementwise(*types: str) -> None:
    """Registers operations that broadcast their inputs to the shape of their output."""
    shapes(*types)(_broadcast)


def _broadcast(op: Op, index: int) -> Shape | None:
    known = [op.dims(place) for place in range(len(op.inputs))]
    given = [shape for shape in known if shape is not None]
    return broadcast_shapes(list(given)) if len(given) == len(known) else None


def of_one_shape(*types: str) -> None:
    """Registers operations of operands with the output's shape, except scalars and conditions."""
    shapes(*types)(_alike)


def _alike(op: Op, index: int) -> Shape | None:
    known = [op.dims(place) for place in range(op.type == "Select", len(op.inputs))]
    ranks = [len(shape) for shape in known if shape is not None]
    rank = max(ranks) if len(ranks) == len(known) else rank_of(op)
    return None if rank is None else alike(known, rank)


def shape_of(op: Op, index: int) -> tuple[Dim | None, ...] | None:
    """Returns the shape of output `index`, with None for sizes that are not known."""
    function = function_of(op.type)
    found = _of_integers(op, index) if function is None else function(op, index)
    return None if found is None else tuple(found)


def _of_integers(op: Op, index: int) -> Shape | None:
    """Returns the shape of integers that are known."""
    made = evaluate(op) if op.outputs[index].dtype.is_integer else None
    value = None if made is None else made[index]
    return None if value is None else value.shape


__all__ = ["elementwise", "of_one_shape", "resolved", "shape_of", "summands_of"]
