"""Cells of recurrent networks as one kernel: rows are independent."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import ROWS, Labels, cut, linear, rows_first

# What has steps on axis 0, and rows on axis 1.
STEPS: Labels = (None, *ROWS)


@rule("GRUBlockCell")
def gru(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the input and the state."""
    return rows_first(op, layouts, [0, 1])


@rule("GRUBlockCellGrad")
def gru_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut these, and what the cell has made; gradients of weights are made by other operations."""
    return rows_first(op, layouts, [0, 1, 6, 7, 8, 9]) or linear(op, layouts, [9])


@rule("LSTMBlockCell")
def lstm(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the input and both states."""
    return rows_first(op, layouts, [0, 1, 2])


@rule("LSTMBlockCellGrad")
def lstm_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut these, what the cell has made, and gradients; those of peepholes are summed over rows."""
    operands = (*[ROWS] * 3, *[()] * 5, *[ROWS] * 8)
    return cut(op, layouts, operands, (ROWS, ROWS, (), (), ()))


@rule("BlockLSTM", "BlockLSTMV2")
def steps(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut the inputs of all steps, and both states."""
    return cut(op, layouts, ((), STEPS, ROWS, ROWS, *[()] * 5), [STEPS] * 7)


@rule("BlockLSTMGrad", "BlockLSTMGradV2")
def steps_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Cut these, what the steps have made, and gradients; those of weights are sums over rows."""
    operands = ((), STEPS, ROWS, ROWS, *[()] * 5, *[STEPS] * 9)
    return cut(op, layouts, operands, (STEPS, ROWS, ROWS, *[()] * 5))
