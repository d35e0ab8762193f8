"""Finds operations whose copies would only pass on an input, so that towers need no copies.

Gradients contain many: an `Identity` for each that waits for another one, and a `Sum` along no axis
and a `Reshape` to the same shape for each operand that was not broadcast.
"""

from __future__ import annotations

from typing import Any, Callable

from replicate.compat import graph as graph_lib
from replicate.layouts import Facts
from replicate.partition.plan import Plan

_PASS_ON = frozenset(["Identity", "StopGradient", "PreventGradient", "Snapshot"])


def find(plan: Plan) -> Callable[[Any], Any]:
    """Returns a function from a tensor to the one that it is an alias of, or to itself.

    Args:
        plan: The `Plan`.
    """
    copied = set(plan.copied)
    waits = plan.control_inputs, plan.waits, plan.extra_waits
    waited_for = set().union(*(before for one in waits for before in one.values()))
    passed: dict[Any, Any] = {}
    for operation in plan.copied:
        if operation in waited_for or plan.waits.get(operation) or not operation.inputs:
            continue
        if graph_lib.in_while_loop(operation):
            continue  # Its input may be a value outside of the loop.
        given, *others = operation.inputs
        if any(one.op.type != "Const" or one.op.control_inputs for one in others):
            continue  # To compute the other inputs may have side effects.
        layout, demand = plan.layouts.layout_of(given), plan.layouts.strategies[operation].inputs[0]
        if given.op in copied and layout == demand and _passes_on(operation, plan.layouts.facts):
            passed[operation] = passed.get(given.op, given)
    return lambda tensor: passed.get(tensor.op, tensor)


def _passes_on(operation: Any, facts: Facts) -> bool:
    """Whether an operation has one output, which is equal to its first input."""
    if operation.type == "Reshape":
        before, after = facts.dims(operation.inputs[0]), facts.dims(operation.outputs[0])
        return before is not None and before == after
    if operation.type == "Sum":
        axes = facts.value(operation.inputs[1])
        return axes is not None and axes.size == 0
    return operation.type in _PASS_ON
