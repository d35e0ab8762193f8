"""Finds where a value in a loop begins, so that it can begin in another layout.

No value changes its layout inside a loop. If an operation inside demands another layout, the value
has to enter the loop with it, or a constant or filled tensor inside has to be made with it.
"""

from __future__ import annotations

from typing import Any, Callable, Collection

from replicate.compat import graph as graph_lib
from replicate.layouts import dims as dims_lib
from replicate.layouts import loop_variables
from replicate.layouts.facts import Facts
from replicate.layouts.kinds import MADE_OUTSIDE, PASS_ON, SOURCES
from replicate.layouts.layout import (
    SIZE,
    WHOLE,
    Demand,
    Layout,
    Partial,
    PerTowerLayout,
    Shard,
    Share,
)
from replicate.layouts.rule import rule_of


def find(
    tensor: Any,
    wanted: Demand,
    inside: Collection[Any],
    facts: Facts,
    layout_of: Callable[[Any], Layout],
) -> Any:
    """Returns the operation in a loop where a tensor begins, None if none is found.

    It is an `Enter`, a constant or range, or an operation that gets rows by its shape, from which
    only operations that keep the wanted layout lead to the tensor.

    Args:
        tensor: The tensor.
        wanted: The layout in which it is demanded.
        inside: The operations of the loop.
        facts: The `Facts`.
        layout_of: Function of a tensor that returns its layout.
    """
    seen: set[Any] = set()
    pending = [tensor]
    while pending:
        tensor = pending.pop()
        operation = tensor.op
        key = graph_lib.reference(tensor)
        if operation not in inside or key in seen:
            continue
        seen.add(key)
        if operation.type == "Enter" and operation.inputs[0].op not in inside:
            given = operation.inputs[0]
            # All that take it get a shard, so it must not be one entry for all rows.
            is_split = isinstance(wanted, Shard) and layout_of(given) == WHOLE
            if not is_split or _may_be(given, wanted, facts):
                return operation
        elif operation.type == "Merge" and not loop_variables.is_variable(operation):
            continue  # Both branches of a condition would have to change.
        elif operation.type in PASS_ON:
            pending.append(operation.inputs[0])  # For a variable: the value it begins with.
        elif operation.type == "IdentityN":
            pending.append(operation.inputs[tensor.value_index])
        elif operation.type in MADE_OUTSIDE:
            if _can_be_outside(operation, facts) and _may_be(tensor, wanted, facts):
                return operation
        elif operation.type in SOURCES and _gives(operation, {}, wanted, facts):
            return operation  # For example zeros, of a shape that holds n.
        else:
            pending += reversed(_leading(operation, wanted, facts, layout_of))
    return None


def _can_be_outside(operation: Any, facts: Facts) -> bool:
    """Whether a constant or range is the same in all rounds, and known before the graph runs."""
    given = [facts.value(tensor) for tensor in operation.inputs]
    return all(
        value is not None and not any(map(dims_lib.is_of_loop, value.flat)) for value in given
    )


def _leading(
    operation: Any, wanted: Demand, facts: Facts, layout_of: Callable[[Any], Layout]
) -> list[Any]:
    """Returns the whole inputs of an operation that make its result as it is wanted.

    The rule of the operation says which does so alone. If none does, several may do it together,
    such as both factors of `s * tf.sigmoid(s)`. When one begins as wanted, the next pass finds it
    of the others.
    """
    # Integers of a formula count as whole: a range that began as wanted would be rows.
    inputs = enumerate(operation.inputs)
    whole = {i: given for i, given in inputs if layout_of(given) in (SIZE, WHOLE)}
    alone = [given for i, given in whole.items() if _gives(operation, {i: wanted}, wanted, facts)]
    if alone or not isinstance(wanted, Shard):
        return alone
    together = {i: given for i, given in whole.items() if _may_be(given, wanted, facts)}
    gives = _gives(operation, dict.fromkeys(together, wanted), wanted, facts)
    return list(together.values()) if gives else []


def _may_be(tensor: Any, wanted: Demand, facts: Facts) -> bool:
    """Whether each tower can have its shard or partial of a whole value, whatever its size."""
    if not isinstance(wanted, Shard):
        return isinstance(wanted, (Partial, PerTowerLayout))
    dims = facts.dims(tensor)
    if dims is None or not 0 <= wanted.axis < len(dims):
        return False
    return dims_lib.over(dims[wanted.axis], facts.rows) is not None


def _has_axis(tensor: Any, wanted: Demand, facts: Facts) -> bool:
    """Whether a tensor has the axis on which it would have rows."""
    if not isinstance(wanted, Shard):
        return True
    dims = facts.dims(tensor)
    return dims is not None and wanted.axis < len(dims)


def _gives(operation: Any, given: dict[int, Demand], wanted: Demand, facts: Facts) -> bool:
    """Whether an operation has the wanted result if its inputs are whole except those given."""
    rule = rule_of(operation.type)
    if rule is None or wanted == WHOLE or isinstance(wanted, Share):
        return False  # If all inputs are whole, so is the result; rules are not asked then.
    if any(not _has_axis(operation.inputs[index], one, facts) for index, one in given.items()):
        return False  # For example a scalar factor, which has no axis of rows.
    layouts: list[Any] = [given.get(index, WHOLE) for index in range(len(operation.inputs))]
    found = rule(facts.op_of(operation), layouts)
    if found is None or found.outputs[0] != wanted:
        return False
    return all(
        isinstance(demand, Share) or demand == layout
        for demand, layout in zip(found.inputs, layouts)
    )
