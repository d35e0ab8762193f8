"""Normalization kernels. In training, fused batch norm uses the moments of each tower's rows.

This is one of the two differences from one device; see `kinds.differs`. Batch norm that is made of
other operations takes means over rows, and is exact.
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

# Entries are normalized along the last axis. `LRNGrad` is linear in the gradient only.
by_labels("LRN", inputs={0: leading(3)})
by_labels("LRNGrad", inputs=dict.fromkeys(range(3), leading(3)), linear_in=[0])


@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Normalizes each tower's rows; batch moments become the mean of the towers'.

    Tensors reserved for the gradient stay in the tower. If moments are given, the outputs are these
    again, the same in all towers, and so is their mean.
    """
    rows = rows_first(op, layouts, [0])
    if rows is None:
        return None
    return Strategy(rows.inputs, (Shard(0), MEAN, MEAN, *(PER_TOWER,) * (len(op.outputs) - 3)))


@rule("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def batch_norm_gradient(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Computes the gradient in the tower that normalized; those of scale and offset are sums.

    If the moments are those of all rows, the gradient needs all rows, and runs once.
    """
    rows, moments = rows_first(op, layouts, [0, 1]), layouts[3:]
    if rows is None or (op.attr("is_training") and not all(_is_per_tower(one) for one in moments)):
        return None
    kept = tuple(one if _is_per_tower(one) else WHOLE for one in moments)
    # The last two outputs are unused, and in TensorFlow 1.15 their shape is wrong.
    return Strategy((*rows.inputs[:3], *kept), (Shard(0), SUM, SUM, PER_TOWER, PER_TOWER))


def _is_per_tower(layout: Layout) -> bool:
    return isinstance(layout, PerTowerLayout)
