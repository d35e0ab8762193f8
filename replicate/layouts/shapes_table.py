"""The table of functions that follow shapes, by type of operation."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

from replicate.layouts import values
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op

# None for sizes that are not known.
Shape = Sequence[Optional[Dim]]
# Given an operation and which of its outputs; returns None if nothing is known of its shape.
Function = Callable[[Op, int], Optional[Shape]]

# Given an operation, which of its outputs and an axis; returns the sizes whose sum that axis is.
Summands = Callable[[Op, int, int], Optional[Sequence[Dim]]]

_functions: dict[str, Function] = {}
_summands: dict[str, Summands] = {}


def shapes(*types: str) -> Callable[[Function], Function]:
    """Enters a function into the table, of types of operations."""

    def enter(function: Function) -> Function:
        _functions.update(dict.fromkeys(types, function))
        return function

    return enter


def summands(*types: str) -> Callable[[Summands], Summands]:
    """Enters a function into the table of sizes that are sums, of types of operations."""

    def enter(function: Summands) -> Summands:
        _summands.update(dict.fromkeys(types, function))
        return function

    return enter


def summands_of(op: Op, index: int, axis: int) -> Sequence[Dim] | None:
    """Returns the sizes whose sum an axis of output `index` is, None if that is not known."""
    function = _summands.get(op.type)
    return None if function is None else function(op, index, axis)


def function_of(name: str) -> Function | None:
    """Returns the function of a type of operation, None if it has none."""
    return _functions.get(name)


def like(*types: str, source: int | None = 0) -> None:
    """Says that results have the shape of input `source`, or each of its own input if None."""

    def function(op: Op, index: int) -> Shape | None:
        return op.dims(index if source is None else source)

    shapes(*types)(function)


def of_shape(*types: str, by: int) -> None:
    """Says that input `by` is the shape of results."""

    def function(op: Op, index: int) -> Shape | None:
        return sizes(op, by)

    shapes(*types)(function)


def sizes(op: Op, index: int) -> list[Dim | None] | None:
    """Returns the integers of an input as sizes; one of -1 is not known."""
    value = values.entries(op, index)
    return None if value is None else [None if size == -1 else size for size in value.flat]


def rank_of(op: Op, index: int = 0) -> int | None:
    """Returns the rank that the graph says an output has, None if it does not.

    `Op.out_rank` may ask for the shape, which is being found.
    """
    return op.outputs[index].shape.rank
