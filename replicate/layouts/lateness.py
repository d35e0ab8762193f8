"""Moves operations on partials behind the reduction if running in each tower gains nothing.

A sum over towers may be scaled before or after its partials are added up. Afterwards, it is scaled
once instead of N times. Examples are moving averages, and reshapes of gradients to the shape of
their weights.
"""

from __future__ import annotations

from typing import Any, Sequence

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts.facts import Facts
from replicate.layouts.found import Layouts
from replicate.layouts.layout import WHOLE, Partial, Strategy


def run_late(operations: Sequence[Any], layouts: Layouts) -> Layouts:
    """Returns layouts in which partials are reduced as early as possible at no cost.

    Args:
        operations: The operations of the graph, each after those whose outputs it takes.
        layouts: Their layouts.
    """
    strategies = dict(layouts.strategies)
    late: dict[Any, Any] = {}
    taken: set[Any] = set()  # Partials that operations in towers take.
    # From the last one back: an operation can only move if none of its consumers stays in towers.
    for operation in reversed(operations):
        strategy = strategies.get(operation)
        if strategy is None:
            continue
        outputs = [graph_lib.reference(tensor) for tensor in operation.outputs]
        if taken.isdisjoint(outputs) and _may_be_late(operation, strategy, layouts.facts):
            # It runs once, on the reduced input.
            del strategies[operation]
            late.update(dict.fromkeys(outputs, WHOLE))
            continue
        for tensor, demand in zip(operation.inputs, strategy.inputs):
            if isinstance(demand, Partial):
                taken.add(graph_lib.reference(tensor))
    return layouts.changed(strategies, late)


def _may_be_late(operation: Any, strategy: Strategy, facts: Facts) -> bool:
    """Whether an operation turns partials of one tensor into partials, with no fewer entries.

    If the output has fewer entries, it is cheaper to send across devices than the input.
    """
    if len(strategy.outputs) != 1 or not isinstance(strategy.outputs[0], Partial):
        return False
    if operation.control_inputs or graph_lib.in_while_loop(operation):
        return False  # Run once, it would wait for all towers; a copy waits for its own tower.
    parts = {
        graph_lib.reference(tensor): tensor
        for tensor, demand in zip(operation.inputs, strategy.inputs)
        if demand != WHOLE
    }
    if len(parts) != 1 or not any(isinstance(demand, Partial) for demand in strategy.inputs):
        return False
    (part,) = parts.values()
    before, after = facts.dims(part), facts.dims(operation.outputs[0])
    return before is not None and after is not None and _as_many(before, after)


def _as_many(before: Sequence[Any], after: Sequence[Any]) -> bool:
    return dims_lib.over(dims_lib.product(after), dims_lib.product(before)) is not None
