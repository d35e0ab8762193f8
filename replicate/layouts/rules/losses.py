"""Softmax, and losses of classes: within each row."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import Layout, Shard, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.elementwise import aligned


@rule("Softmax", "LogSoftmax")
def softmax(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keep rows that are not on the last axis, that of classes."""
    given, rank = layouts[0], op.rank(0)
    if not isinstance(given, Shard) or rank is None or given.axis == rank - 1:
        return None
    return Strategy((given,), (given,))


@rule("SoftmaxCrossEntropyWithLogits")
def cross_entropy(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keep rows of logits and labels, which are broadcast to a matrix, as in other operations."""
    if not any(isinstance(layout, Shard) for layout in layouts):
        return None
    found = aligned(op, layouts)
    if found is None or found[0] != -2:
        return None
    return Strategy(found[1], (Shard(0), Shard(0)))


@rule("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keep rows of logits and labels: there are as many of each."""
    if Shard(0) not in layouts:
        return None
    return Strategy((Shard(0), Shard(0)), (Shard(0), Shard(0)))
