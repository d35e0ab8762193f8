"""Cells of recurrent networks as one kernel: rows are independent."""

from __future__ import annotations

from replicate.layouts.rules.labels import ROWS, Labels, by_labels, row_labels

# What has steps on axis 0, and rows on axis 1.
STEPS: Labels = (None, *ROWS)

# The input and the state; of gradients also what the cell has made, and the gradient of that.
by_labels("GRUBlockCell", inputs=row_labels(0, 1))
# Gradients of weights are made by other operations.
by_labels("GRUBlockCellGrad", inputs=row_labels(0, 1, 6, 7, 8, 9), linear_in=[9])
by_labels("LSTMBlockCell", inputs=row_labels(0, 1, 2))
# Gradients of peepholes are summed over rows.
by_labels(
    "LSTMBlockCellGrad",
    inputs=row_labels(0, 1, 2, *range(8, 16)),
    results=(ROWS, ROWS, (), (), ()),
)
# The inputs of all steps, and both states.
by_labels("BlockLSTM", "BlockLSTMV2", inputs={1: STEPS, **row_labels(2, 3)})
# Gradients of weights are sums over rows.
by_labels(
    "BlockLSTMGrad",
    "BlockLSTMGradV2",
    inputs={1: STEPS, **row_labels(2, 3), **dict.fromkeys(range(9, 18), STEPS)},
    results=(STEPS, ROWS, ROWS, *[()] * 5),
)
