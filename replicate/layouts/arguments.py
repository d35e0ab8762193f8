"""The results of an operation by the names of its definition, of which one may be several."""

from __future__ import annotations

from typing import Any, NamedTuple

from replicate.layouts.rule import Op


class Result(NamedTuple):
    """An output: the name that the definition gives it, and which of those of that name it is."""

    name: str
    place: int


def results(op: Op) -> list[Result]:
    """Returns what each output of an operation is."""
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
