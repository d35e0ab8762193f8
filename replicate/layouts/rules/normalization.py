"""Normalization kernels. In training, batch norm's have the moments of each tower's rows.

These moments are one of two differences from one device, see `kinds.differs`. Batch norm of other
kernels is made of means over rows, and exact.
"""

from __future__ import annotations

from typing import Sequence

from replicate.layouts.layout import (
    MEAN,
    PER_TOWER,
    SUM,
    WHOLE,
    Layout,
    PerTowerLayout,
    Shard,
    Strategy,
)
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import by_labels, leading, rows_first

# Entries are normalized along the last axis; the gradient alone is linear.
by_labels("LRN", inputs={0: leading(3)})
by_labels("LRNGrad", inputs=dict.fromkeys(range(3), leading(3)), linear_in=[0])


@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Normalize each tower's rows; moments that update moving ones are the mean of the towers'.

    What is reserved for the gradient stays in the tower. Where moments are given, they come out
    again, of all towers the same.
    """
    rows = rows_first(op, layouts, [0])
    if rows is None:
        return None
    return Strategy(rows.inputs, (Shard(0), MEAN, MEAN, *(PER_TOWER,) * (len(op.outputs) - 3)))


@rule("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def batch_norm_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Take the gradient of what each tower has normalized; those of scale and offset are sums.

    Moments of all rows have a gradient that needs all rows: then it runs once.
    """
    rows, moments = rows_first(op, layouts, [0, 1]), layouts[3:]
    if rows is None or (op.attr("is_training") and not all(_is_per_tower(one) for one in moments)):
        return None
    kept = tuple(one if _is_per_tower(one) else WHOLE for one in moments)
    # The last two outputs are placeholders: those of TensorFlow 1.15 lie about their shape.
    return Strategy((*rows.inputs[:3], *kept), (Shard(0), SUM, SUM, PER_TOWER, PER_TOWER))


def _is_per_tower(layout: Layout) -> bool:
    return isinstance(layout, PerTowerLayout)
