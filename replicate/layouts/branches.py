"""Layouts of the values that conditions of TensorFlow 1 pass on.

Both branches of a condition are in the graph. In a step that takes the other branch, the values of
a branch are *dead*. The predicate is whole, so all towers take the branch that one device takes.
"""

from __future__ import annotations

from typing import Any, Sequence

from replicate.layouts.layout import PER_TOWER, SIZE, WHOLE, Demand, Layout, Shard, Strategy
from replicate.layouts.rule import Op

TYPES = frozenset(["Merge", "Switch"])


def strategy(op: Op, layouts: Sequence[Layout]) -> Strategy | None:
    """Returns how towers run a `Switch`, or a `Merge`, whose inputs get one layout.

    The tensors of two branches may differ in size. A whole one is only split to match the other if
    both have the same number of entries for each row.
    """
    if op.type == "Switch":
        return Strategy((layouts[0], WHOLE), (layouts[0],) * 2)
    wanted = next((layout for layout in layouts if layout != WHOLE), WHOLE)
    if isinstance(wanted, Shard) and any(layout != wanted for layout in layouts):
        known = [op.dims(index) for index in range(len(layouts))]
        if any(dims is None or len(dims) <= wanted.axis for dims in known):
            return None
        if len({dims[wanted.axis] for dims in known if dims is not None}) > 1:
            return None  # The branches have different numbers of entries for each row.
    demands: list[Demand] = [wanted] * len(layouts)
    if wanted == PER_TOWER:
        # The flow of an array may be the same in all towers: 0 if a branch does not use the array.
        demands = [
            WHOLE if one == WHOLE and op.rank(i) == 0 else wanted for i, one in enumerate(layouts)
        ]
    return Strategy(tuple(demands), (wanted, WHOLE))


def are_merged(operation: Any) -> bool:
    """Whether a `Merge` takes an output of an operation.

    A formula must not replace it: a formula is never dead, so the `Merge` would have two inputs.
    """
    return any(taker.type == "Merge" for t in operation.outputs for taker in t.consumers())


def merge_a_size(operation: Any, strategy: Strategy) -> bool:
    """Whether a `Merge` takes an output of an operation that a formula would replace."""
    return SIZE in strategy.outputs and are_merged(operation)
