"""What leads to an operation: how many meetings, and what acts when it runs.

Two tensors may cross devices in one pack if neither leads to the other, and if whatever runs for
one of them runs for the other as well. Then a pack changes neither the order of things, nor what
happens in a session that asks for one of them alone.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import SIZE, WHOLE, Layouts

# Stateful, but to run them once more changes nothing.
_READS = frozenset(
    ["VarHandleOp", "ReadVariableOp", "VariableV2", "Variable", "ResourceGather"]
    + ["ResourceGatherNd", "VariableShape", "VarIsInitializedOp", "IsVariableInitialized"]
)


class Origin(NamedTuple):
    """What leads to an operation.

    Attributes:
        meetings: How many meetings, at most, one after the other.
        acts: A bit for each operation that changes a state, draws a number or has to be fed.
    """

    meetings: int = 0
    acts: int = 0


def origins_of(operations: Sequence[Any], layouts: Layouts) -> Dict[Any, Origin]:
    """Returns the `Origin` of each operation.

    Args:
        operations: The operations, in the order in which they were made.
        layouts: Their `Layouts`.
    """
    found: Dict[Any, Origin] = {}
    bits: Dict[Any, int] = {}
    for operation in operations:
        if _acts(operation):
            bits[operation] = 1 << len(bits)
    loops = any(operation.type == "NextIteration" for operation in operations)
    changed = True
    while changed:
        changed = False
        for operation in operations:
            origin = _origin(operation, layouts, found, bits)
            if origin != found.get(operation):
                found[operation] = origin
                changed = loops  # What leads back to where a loop begins was made after it.
    return found


def _origin(
    operation: Any, layouts: Layouts, found: Dict[Any, Origin], bits: Dict[Any, int]
) -> Origin:
    strategy = layouts.strategies.get(operation)
    meetings, acts = found.get(operation, Origin())
    acts |= bits.get(operation, 0)
    for index, tensor in enumerate(operation.inputs):
        before = found.get(tensor.op, Origin())
        layout = layouts.of(tensor)
        demand = WHOLE if strategy is None else strategy.inputs[index]
        meets = layout not in (WHOLE, SIZE) and layout != demand
        meetings = max(meetings, before.meetings + meets)
        acts |= before.acts
    for one in operation.control_inputs:
        before = found.get(one, Origin())
        meetings, acts = max(meetings, before.meetings), acts | before.acts
    return Origin(meetings, acts)


def _acts(operation: Any) -> bool:
    if operation.type == "Placeholder":
        return True
    return operation.type not in _READS and graph_lib.is_stateful(operation)
