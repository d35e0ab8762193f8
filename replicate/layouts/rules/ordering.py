"""Operations that sort entries, or search among sorted ones, within each row.

`tf.sort` and `tf.argsort` consist of `TopKV2` and transpositions.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import WHOLE, Layout, Shard, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import by_labels, by_leading_axes, row_labels

# The last axis is sorted.
by_leading_axes("TopKV2", "NthElement")
# Inputs 0 and 1 are predictions and targets.
by_labels("InTopK", "InTopKV2", inputs=row_labels(0, 1))
# Input 0 is the points; the centers are the same for all.
by_labels("NearestNeighbors", inputs=row_labels(0))


@rule("LowerBound", "UpperBound")
def search(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Searches for each value of a row among the same row's sorted entries."""
    if Shard(0) in layouts:
        return Strategy((Shard(0), Shard(0)), (Shard(0),))
    if layouts[1] == Shard(1):
        return Strategy((WHOLE, Shard(1)), (Shard(1),))
    return None
