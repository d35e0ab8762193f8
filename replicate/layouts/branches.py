"""Layouts of what the conditions of TensorFlow 1 pass on.

Both branches of a condition are in the graph, and what a branch computes is *dead* where the other
one is taken. Towers take the branch that one device takes: a predicate is whole.
"""

from __future__ import annotations

from typing import Any, Sequence

from replicate.layouts.layout import WHOLE, Layout, Shard, Strategy
from replicate.layouts.rule import Op

TYPES = frozenset(["Merge", "Switch"])


def strategy(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Returns how towers run a `Switch`, or a `Merge` of branches: these are made alike.

    Branches may give tensors of other sizes. So they have the same number of entries for each row
    if one of them has to be split.
    """
    if op.type == "Switch":
        return Strategy((layouts[0], WHOLE), (layouts[0],) * 2)
    wanted = next((layout for layout in layouts if layout != WHOLE), WHOLE)
    if isinstance(wanted, Shard) and any(layout != wanted for layout in layouts):
        known = [op.dims(index) for index in range(len(layouts))]
        if any(dims is None or len(dims) <= wanted.axis for dims in known):
            return None
        if len({dims[wanted.axis] for dims in known if dims is not None}) > 1:
            return None
    return Strategy((wanted,) * len(layouts), (wanted, WHOLE))


def are_merged(operation: Any) -> bool:
    """Whether a `Merge` takes what an operation gives; a formula would never be dead."""
    return any(taker.type == "Merge" for t in operation.outputs for taker in t.consumers())
