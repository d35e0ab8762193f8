"""Kernels of recurrent cells, in which rows are independent."""

from __future__ import annotations

from replicate.layouts.rules.labels import ROWS, Labels, by_labels, row_labels

# Labels of tensors with time steps on axis 0 and rows on axis 1.
STEPS: Labels = (None, *ROWS)

# Inputs with rows are the input and the state; for gradients also the cell's outputs and their
# gradients.
by_labels("GRUBlockCell", inputs=row_labels(0, 1))
# Other operations compute the gradients of weights.
by_labels("GRUBlockCellGrad", inputs=row_labels(0, 1, 6, 7, 8, 9), linear_in=[9])
by_labels("LSTMBlockCell", inputs=row_labels(0, 1, 2))
# Gradients of peepholes are summed over rows.
by_labels(
    "LSTMBlockCellGrad",
    inputs=row_labels(0, 1, 2, *range(8, 16)),
    results=(ROWS, ROWS, (), (), ()),
)
# The input has all steps; inputs 2 and 3 are the states.
by_labels("BlockLSTM", "BlockLSTMV2", inputs={1: STEPS, **row_labels(2, 3)})
# Gradients of weights are sums over rows.
by_labels(
    "BlockLSTMGrad",
    "BlockLSTMGradV2",
    inputs={1: STEPS, **row_labels(2, 3), **dict.fromkeys(range(9, 18), STEPS)},
    results=(STEPS, ROWS, ROWS, *[()] * 5),
)
