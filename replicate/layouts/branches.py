"""Layouts of the values that conditions of TensorFlow 1 pass on.

Both branches of a condition are in the graph. In a step that takes the other branch, the values of
a branch are *dead*. The predicate is whole, so all towers take the branch that one device takes.
"""

from __future__ import annotations

from typing import Any, Sequence

from replicate.compat import graph as graph_lib
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


def are_sizes_only(operation: Any) -> bool:
    """Whether a formula may replace an operation, which is never dead.

    Not if a `Merge` takes its outputs, which would have two inputs then. And not if it alone is
    dead in a branch: the gradient of a condition in a loop makes zeros for the branch that was not
    taken, and knows from the popped shape alone which one that is.
    """
    return not _are_merged(operation) and not (
        any(map(_lacks_pivot, operation.inputs)) and not graph_lib.branches_around(operation)
    )


def replace_a_branch(operation: Any, strategy: Strategy) -> bool:
    """Whether a strategy would replace an operation by a formula that may not replace it."""
    return SIZE in strategy.outputs and not are_sizes_only(operation)


def _are_merged(operation: Any) -> bool:
    return any(taker.type == "Merge" for t in operation.outputs for taker in t.consumers())


def _lacks_pivot(tensor: Any) -> bool:
    """Whether a tensor is that of a branch, and no identity of it stands for the branch.

    Operations that TensorFlow makes of its shape wait for such an identity.
    """
    begins = tensor.op.type == "Switch" and tensor.op.inputs[1].op.type != "LoopCond"
    return begins and all(taker.type != "Identity" for taker in tensor.consumers())
