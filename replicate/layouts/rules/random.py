"""Random numbers: each tower draws those of its rows."""

from __future__ import annotations

from typing import Sequence

from replicate.layouts import dims as dims_lib
from replicate.layouts.kinds import STARTS
from replicate.layouts.layout import WHOLE, Layout, Shard, Share, Strategy
from replicate.layouts.rule import Op, rule
from replicate.layouts.rules.labels import by_labels, row_labels

# Draws classes for each row of logits.
by_labels("Multinomial", inputs=row_labels(0))


@rule(*STARTS)
def drawn(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Draws rows if the shape begins with their number; other inputs are limits, or parameters.

    For each parameter, numbers of the given shape are drawn; the parameters' axes come last.
    """
    given = layouts[1] if op.type in ("RandomGamma", "RandomPoissonV2") else WHOLE
    if isinstance(given, Shard):
        rank, out_rank = op.rank(1), op.out_rank()
        if rank is None or out_rank is None:
            return None
        return Strategy((WHOLE, given), (Shard(out_rank - rank + given.axis),))
    if not begins_with_rows(op):
        return None
    return Strategy((Share(0), *[WHOLE] * (len(layouts) - 1)), (Shard(0),))


def begins_with_rows(op: Op) -> bool:
    """Whether the first input is a shape whose first size, and no other, is the number of rows.

    If n is known, other sizes, such as those of weights, are mostly multiples of it by chance; then
    only n itself counts.
    """
    shape = op.value(0)
    if shape is None or shape.ndim != 1 or not len(shape):
        return False
    if isinstance(op.rows, int):
        return bool(shape[0] == op.rows)
    if any(dims_lib.holds_rows(size) for size in shape[1:]):
        return False
    return dims_lib.over(shape[0], op.rows) is not None
