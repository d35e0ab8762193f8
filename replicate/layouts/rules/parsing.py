"""Parsers of serialized examples: rows of strings become rows of features, dense and sparse.

Features that are padded to the longest list of the batch are parsed once, since a tower does not
know that length.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.arguments import Result, results
from replicate.layouts.layout import SIZE, WHOLE, Demand, Indices, Layout, Shard, Strategy
from replicate.layouts.rule import Op, pointing
from replicate.layouts.rules.pointing import counted
from replicate.layouts.shapes_of_parsing import PARSERS


@pointing(*PARSERS)
def parse(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Parses a tower's examples; indices of sparse features count the tower's rows."""
    if layouts[0] != Shard(0) or op.rank(0) != 1:
        return None
    made = results(op)
    outputs = [_layout(op, made, index) for index in range(len(made))]
    known = [layout for layout in outputs if layout is not None]
    if len(known) < len(outputs):
        return None
    # Names of the examples, for error messages: one for each, or none.
    names: Demand = WHOLE if op.dims(1) in ((), (0,)) else Shard(0)
    return Strategy((Shard(0), names, *[WHOLE] * (len(layouts) - 2)), tuple(known))


def _layout(op: Op, made: Sequence[Result], index: int) -> Layout | None:
    """Returns the layout of an output, None if it cannot be parsed in towers."""
    name, place = made[index]
    if name in ("dense_values", "context_dense_values"):
        dims = op.dims_of(op.outputs[index])
        is_padded = dims is None or not all(isinstance(size, int) for size in dims[1:])
        return None if is_padded else Shard(0)
    if name.endswith("sparse_shapes"):
        return SIZE
    if name.endswith(("sparse_indices", "sparse_values")):
        unit = counted(op, made.index(Result(name.replace("values", "indices"), place)))
        each = op.per_row(0, 0)
        if unit is None or each is None:
            return None
        is_value = name.endswith("values")
        return Shard(0, unit) if is_value else Indices(unit, each=each, is_matrix=True)
    return None
