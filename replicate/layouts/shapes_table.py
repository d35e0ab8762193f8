"""The table of functions that infer shapes, by type of operation."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from replicate.layouts import values
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op

# None for sizes that are not known.
Shape = Sequence[Optional[Dim]]
# Function of an operation and the index of an output; returns None if its shape is unknown.
Function = Callable[[Op, int], Optional[Shape]]

# Function of an operation, the index of an output and an axis that returns the sizes that add up to
# the size of the axis.
Summands = Callable[[Op, int, int], Optional[Sequence[Dim]]]

_functions: dict[str, Function] = {}
_summands: dict[str, Summands] = {}


def shapes(*types: str) -> Callable[[Function], Function]:
    """Registers a function for types of operations."""

    def enter(function: Function) -> Function:
        _functions.update(dict.fromkeys(types, function))
        return function

    return enter


def summands(*types: str) -> Callable[[Summands], Summands]:
    """Registers a function for sizes that are sums, for types of operations."""

    def enter(function: Summands) -> Summands:
        _summands.update(dict.fromkeys(types, function))
        return function

    return enter


def summands_of(op: Op, index: int, axis: int) -> Sequence[Dim] | None:
    """Returns the sizes that add up to that of an axis of output `index`, None if not known."""
    function = _summands.get(op.type)
    return None if function is None else function(op, index, axis)


def function_of(name: str) -> Function | None:
    """Returns the function of a type of operation, None if it has none."""
    return _functions.get(name)


def like(*types: str, source: int | None = 0) -> None:
    """Registers that outputs have the shape of input `source`; None: each of its own input."""

    def function(op: Op, index: int) -> Shape | None:
        return op.dims(index if source is None else source)

    shapes(*types)(function)


def of_shape(*types: str, by: int) -> None:
    """Registers that input `by` holds the shape of outputs."""

    def function(op: Op, index: int) -> Shape | None:
        return sizes(op, by)

    shapes(*types)(function)


def sizes(op: Op, index: int) -> list[Dim | None] | None:
    """Returns the integers of an input as sizes; -1 counts as unknown."""
    value = values.entries(op, index)
    return None if value is None else [None if size == -1 else size for size in value.flat]


def rank_of(op: Op, index: int = 0) -> int | None:
    """Returns the rank that the graph knows of an output, None if it does not.

    `Op.out_rank` would ask for the very shape that is being inferred.
    """
    return op.outputs[index].shape.rank
