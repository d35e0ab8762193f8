"""Tells which operations run once because less crosses between devices than if towers ran them.

Indices that are computed from data may pick rows of any tower: BERT's places of masked words in
flat sequences, for example. If towers picked rows, each would have to get those of all. If one
device does, rows are concatenated there, and towers get what was picked. In the gradient, each
tower would have a partial sum with a place for each row of the batch.
"""

from __future__ import annotations

from typing import Any, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts import ragged
from replicate.layouts.costs import MULTIPLIES
from replicate.layouts.dims import Dim
from replicate.layouts.found import Layouts
from replicate.layouts.layout import (
    WHOLE,
    Grown,
    Layout,
    Partial,
    Size,
    Strategy,
    Whole,
    is_shard,
)
from replicate.layouts.rule import Op, rule_of


def is_less_if_once(op: Op, layouts: Sequence[Layout], strategy: Strategy) -> bool:
    """Whether less crosses if an operation of rows runs once than if each tower runs it."""
    if op.type in MULTIPLIES:
        return False  # Towers share its work, which is worth more.
    joined = [
        tensor
        for tensor, layout, demand in zip(op.inputs, layouts, strategy.inputs)
        if isinstance(demand, Whole) and is_shard(layout)
    ]
    if not joined and not all(isinstance(layout, Partial) for layout in strategy.outputs):
        return False
    rows = [tensor for tensor, layout in zip(op.inputs, layouts) if is_shard(layout)]
    if joined:
        # Each tower would get all of these. Run once, the others and the outputs cross as well.
        return any(_are_at_most(op, [*rows, *op.outputs], one) for one in joined)
    return bool(rows) and any(_are_at_most(op, rows, one) for one in op.outputs)


def runs_once_to_send_less(operation: Any, layouts: Layouts) -> bool:
    """Whether an operation that runs once has a rule, and only runs once since less crosses."""
    if graph_lib.in_while_loop(operation):
        return False
    found = map(layouts.layout_of, operation.inputs)
    seen = [WHOLE if isinstance(one, (Grown, Size)) else one for one in found]
    strategy = ragged.strategy(layouts.facts, operation, seen, rule_of(operation.type))
    op = layouts.facts.op_of(operation)
    return strategy is not None and is_less_if_once(op, seen, strategy)


def _are_at_most(op: Op, tensors: Sequence[Any], other: Any) -> bool:
    """Whether all of some tensors are known to be no larger than another one."""
    most = _bytes(op, other)
    return all(_is_at_most(_bytes(op, tensor), most) for tensor in tensors)


def _is_at_most(size: Dim | None, other: Dim | None) -> bool:
    return size is not None and other is not None and dims_lib.is_at_most(size, other)


def _bytes(op: Op, tensor: Any) -> Dim | None:
    dims, each = op.dims_of(tensor), tensor.dtype.base_dtype.size
    return None if dims is None else dims_lib.product([each, *dims])
