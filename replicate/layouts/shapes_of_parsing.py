"""Shapes of the outputs of parsers of serialized examples, and integers of sparse shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from replicate.layouts.arguments import Result, results
from replicate.layouts.dims import Dim
from replicate.layouts.rule import Op
from replicate.layouts.shapes_table import Shape, like, shapes, summands
from replicate.layouts.values_table import Values, array, values

PARSERS = ("ParseExample", "ParseExampleV2", "ParseSequenceExample", "ParseSequenceExampleV2")


@shapes(*PARSERS)
def _parsed(op: Op, index: int) -> Shape | None:
    given, made = op.dims(0), results(op)
    name, place = made[index]
    static = op.outputs[index].shape
    if given is None or len(given) != 1 or static.rank is None:
        return None
    sizes: list[Dim | None] = static.as_list()
    if name.endswith("sparse_values"):
        indices = op.dims_of(
            op.outputs[made.index(Result(name.replace("values", "indices"), place))]
        )
        return [indices[0] if indices else None]
    if name.endswith(("dense_values", "dense_lengths")):
        return [given[0], *sizes[1:]]
    return sizes


like("DecodeCSV")


@shapes("DecodePaddedRaw")
def _padded(op: Op, index: int) -> Shape | None:
    given = op.dims(0)
    return None if given is None else [*given, None]


@summands("ParseExampleV2", "ParseSequenceExampleV2")
def _splits(op: Op, index: int, axis: int) -> list[Dim] | None:
    """Returns n and 1 for row splits of a ragged feature: each row's begin, and the last end."""
    given = op.dims(0)
    if given is None or len(given) != 1:
        return None
    is_split = results(op)[index].name.endswith(("row_splits", "outer_splits"))
    return [given[0], 1] if is_split else None


@values(*PARSERS)
def _shapes(op: Op) -> Values:
    """Returns the shapes of sparse features: n lists, as long as the longest."""
    given = op.dims(0)
    if given is None or len(given) != 1:
        return None
    return [
        _shape(op, tensor, given[0]) if made.name.endswith("sparse_shapes") else None
        for made, tensor in zip(results(op), op.outputs)
    ]


def _shape(op: Op, tensor: Any, rows: Dim) -> np.ndarray[Any, Any] | None:
    rank = tensor.shape.num_elements()
    if rank is None:
        return None
    return array([rows, *(op.entry_of(tensor, axis) for axis in range(1, rank))])
