"""Softmax and classification losses, which are computed within each row."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Shard, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.elementwise import aligned
from replicate.layouts.rules.labels import by_labels, by_leading_axes, row_labels

# The last axis is that of classes.
by_leading_axes("Softmax", "LogSoftmax")
# Inputs 0 and 1 are logits and labels.
by_labels("SparseSoftmaxCrossEntropyWithLogits", inputs=row_labels(0, 1))


@rule("SoftmaxCrossEntropyWithLogits")
def cross_entropy(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of logits and labels, which are broadcast to a matrix, as in other operations."""
    if not any(isinstance(layout, Shard) for layout in layouts):
        return None
    found = aligned(op, layouts)
    if found is None or found[0] != -2:
        return None  # Rows would be classes.
    return Strategy(found[1], (Shard(0), Shard(0)))
