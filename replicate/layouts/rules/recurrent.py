"""Cells of recurrent networks as one kernel: rows are independent."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Strategy
from replicate.layouts.rule import Op, rule, whole_on_purpose
from replicate.layouts.rules.labels import linear, rows_first

whole_on_purpose("its kernel refuses what has no rows", "LSTMBlockCell")
whole_on_purpose("what it takes is made by a cell that runs once", "LSTMBlockCellGrad")
whole_on_purpose(
    "its kernel does not clear gradients of weights where there are no rows",
    "BlockLSTMGrad",
    "BlockLSTMGradV2",
)
whole_on_purpose(
    "all that it makes is taken by a gradient that runs once", "BlockLSTM", "BlockLSTMV2"
)


@rule("GRUBlockCell")
def gru(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the input and the state."""
    return rows_first(op, layouts, [0, 1])


@rule("GRUBlockCellGrad")
def gru_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut these, and what the cell has made; gradients of weights are made by other operations."""
    return rows_first(op, layouts, [0, 1, 6, 7, 8, 9]) or linear(op, layouts, [9])
