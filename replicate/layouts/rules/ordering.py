"""Operations that order entries, or search among ordered ones: within each row.

`tf.sort` and `tf.argsort` are made of `TopKV2` and transpositions.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import WHOLE, Layout, Shard, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import rows_first


@rule("TopKV2", "NthElement")
def along_last(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows that are not on the last axis, along which entries are ordered."""
    given, rank = layouts[0], op.rank(0)
    if not isinstance(given, Shard) or rank is None or given.axis == rank - 1:
        return None
    others = (WHOLE,) * (len(layouts) - 1)
    return Strategy((given, *others), (given,) * len(op.outputs))


@rule("InTopK", "InTopKV2")
def in_top_k(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of predictions and targets, which both have them on axis 0."""
    if Shard(0) not in layouts[:2]:
        return None
    others = (WHOLE,) * (len(layouts) - 2)
    return Strategy((Shard(0), Shard(0), *others), (Shard(0),))


@rule("NearestNeighbors")
def nearest(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Keeps rows of points; the centers are the same for all."""
    return rows_first(op, layouts, [0])


@rule("LowerBound", "UpperBound")
def search(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Searches for each value of a row among the same row's sorted entries."""
    if Shard(0) in layouts:
        return Strategy((Shard(0), Shard(0)), (Shard(0),))
    if layouts[1] == Shard(1):
        return Strategy((WHOLE, Shard(1)), (Shard(1),))
    return None
