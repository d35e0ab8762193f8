"""Names the outputs of an operation as its definition does; one name may cover several outputs."""

from __future__ import annotations

from typing import Any, NamedTuple

from replicate.layouts.rule import Op


class Result(NamedTuple):
    """The name of an output in the definition, and its place among the outputs of that name."""

    name: str
    place: int


def results(op: Op) -> list[Result]:
    """Returns a `Result` for each output of an operation."""
    made: list[Result] = []
    for argument in op.operation.op_def.output_arg:
        made += [Result(argument.name, place) for place in range(_many(op, argument))]
    return made


def _many(op: Op, argument: Any) -> int:
    if argument.number_attr:
        return int(op.attr(argument.number_attr))
    if argument.type_list_attr:
        return len(op.attr(argument.type_list_attr))
    return 1
