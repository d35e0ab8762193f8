"""Updates of shared variables from per-tower values.

A variable is written once. Values that are added to a metric's variable are added up over towers.
Other values are averaged, weighted by rows, as moving averages need it, unless the variable's
`aggregation` says otherwise. Slices of all towers are concatenated. A mean is wrong for a running
maximum or minimum, and for a metric's variable that is set, so these are errors.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types, partitioning
from replicate.compat.functions import function_bodies, functions_of
from replicate.graphs import ancestors, followers, line_of, state
from replicate.layouts import MEAN, SUM, WHOLE, Layouts, Shard
from replicate.partition.program import Program

_SET = frozenset(["Assign", "AssignVariableOp"])
_ADD = frozenset(["AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp"])
_EXTREMES = frozenset(["Max", "Maximum", "Min", "Minimum"])
_CHOICES = frozenset(["Select", "SelectV2"])
_FIRST = ("ONLY_FIRST_REPLICA", "ONLY_FIRST_TOWER")


def combine(operations: Sequence[Any], layouts: Layouts, program: Program) -> None:
    """Lets updates take the values of all towers.

    Args:
        operations: The operations of the program.
        layouts: Their `Layouts`.
        program: The `Program`, to which marks are added.

    Raises:
        ValueError: If a trainable variable is updated from a per-tower value, or if nothing defines
            how the towers' values become one.
    """
    variables, once = _by_operation(), program.operations_run_once()
    bodies: dict[str, Any] = {}
    for operation in operations:
        if operation not in layouts.strategies:
            if operation.type in _ADD and operation not in once:
                _add_for_each(operation, variables, program)
            continue
        if state.writes_summaries(operation):
            # Summaries that are written by an operation are those of the first tower.
            for index, tensor in enumerate(list(operation.inputs)):
                if layouts.layout_of(tensor) != WHOLE:
                    partitioning.take(operation, index, program.each(tensor)[0])
        elif state.assigns(operation):
            variable = variables.get(state.source(operation.inputs[0]))
            if variable is not None:
                _check(operation, variable)
                _update(operation, variable, layouts, program)
        elif op_types.calls_functions(operation):
            _check_functions(operation, bodies)


def _add_for_each(operation: Any, variables: dict[Any, Any], program: Program) -> None:
    """Lets each tower add a value that is the same in all to a variable that sums theirs up.

    For example, the number of values of a tower, by which a metric divides their sum.
    """
    variable = variables.get(state.source(operation.inputs[0]))
    is_summed = variable is not None and (
        _aggregation(variable) == "SUM"
        or any(variable is one for one in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES))
    )
    if is_summed and not graph_lib.is_in_control_flow(operation):
        value = program.tower_has([operation.inputs[1]] * program.size)
        partitioning.take(operation, 1, program.whole(value, SUM))


def _aggregation(variable: Any) -> str | None:
    return getattr(getattr(variable, "aggregation", None), "name", None)


def _update(operation: Any, variable: Any, layouts: Layouts, program: Program) -> None:
    aggregation = _aggregation(variable)
    if aggregation in _FIRST:
        how: Any = None
    elif operation.type not in _SET | _ADD:  # A scatter: slices with their indices.
        how = Shard(0)
    elif operation.type in _ADD and (aggregation == "SUM" or _is_local(variable)):
        how = SUM
    elif _is_mean(operation, variable, aggregation, layouts):
        how = MEAN
    else:
        raise ValueError(
            "All towers share a variable, but nothing defines how their values become one value of "
            f"{variable.name}, which {operation.type} {operation.name} ({line_of(operation)}) "
            "updates. Update it by a `replicate.cross_tower_sum`, or in a `replicate.merge_call`."
        )
    for index, tensor in enumerate(list(operation.inputs)):
        if layouts.layout_of(tensor) == WHOLE:
            continue
        whole = program.each(tensor)[0] if how is None else program.whole(tensor, how)
        partitioning.take(operation, index, whole)


def _is_mean(operation: Any, variable: Any, aggregation: str | None, layouts: Layouts) -> bool:
    """Whether the towers' values are averaged: by `aggregation`, or as of a moving average."""
    value = operation.inputs[-1]
    if not value.dtype.is_floating or aggregation == "SUM":
        return False
    if aggregation == "MEAN":  # The user chose it, also for a maximum.
        return True
    if operation.type in _ADD:
        return value.op.type not in _EXTREMES
    return not _is_local(variable) and not _is_extreme(operation, layouts)


def _is_extreme(operation: Any, layouts: Layouts) -> bool:
    """Whether a variable is set to the larger or smaller of its value and of others."""
    value, variable = operation.inputs[-1], state.source(operation.inputs[0])
    known: dict[Any, list[Any]] = {}
    before = ancestors([value], known=known)
    reads = [op for op in before if any(state.source(each) is variable for each in op.inputs)]
    return value.op.type in _EXTREMES or any(
        op.type in _EXTREMES
        # Towers that choose by their own rows do not make a moving average.
        or (op.type in _CHOICES and layouts.layout_of(op.inputs[0]) != WHOLE)
        for op in followers(reads, known)
    )


def _check(operation: Any, variable: Any) -> None:
    """Raises a ValueError if a variable cannot be updated from a per-tower value."""
    if getattr(variable, "trainable", False):
        raise ValueError(
            "With `per_tower=True`, trainable variables are updated by gradients of all towers, "
            f"but {operation.type} {operation.name} ({line_of(operation)}) updates {variable.name} "
            "from the value of a single tower. Wrap the optimizer, as in "
            "`replicate.TowerOptimizer(tf.train.AdamOptimizer(1e-3))`, or use a "
            "`replicate.cross_tower_mean` or `cross_tower_sum`."
        )
    if graph_lib.is_in_control_flow(operation):
        raise ValueError(_in_body(operation, variable.name))


def _check_functions(operation: Any, bodies: dict[str, Any]) -> None:
    """Raises a ValueError if a function that each tower calls updates a variable."""
    handles = [tensor for tensor in operation.inputs if tensor.dtype == tf.resource]
    if not handles or not op_types.is_stateful(operation):
        return
    if not bodies:
        bodies.update(function_bodies(operation.graph))
    for node in _nodes_of(operation.node_def, bodies, set()):
        if node.op in _SET | _ADD or node.op.startswith(("ResourceApply", "ResourceScatter")):
            raise ValueError(_in_body(operation, node.name))


def _nodes_of(node: Any, bodies: dict[str, Any], seen: set[str]) -> Iterator[Any]:
    """Yields the nodes of the functions that a node calls."""
    for name in functions_of(node):
        if name in bodies and name not in seen:
            seen.add(name)
            for inner in bodies[name].node_def:
                yield inner
                yield from _nodes_of(inner, bodies, seen)


def _in_body(operation: Any, what: str) -> str:
    return (
        "With `per_tower=True`, each tower runs a condition, loop or function by itself if its "
        f"inputs differ among towers, but {operation.type} {operation.name} ({line_of(operation)}) "
        f"updates a variable there ({what}). Update it outside, by a value that the body returns."
    )


def _by_operation() -> dict[Any, Any]:
    """Returns variables by the operations that hold them."""
    found = [*tf.global_variables(), *tf.local_variables()]
    return {variable.op: variable for variable in found if hasattr(variable, "op")}


def _is_local(variable: Any) -> bool:
    keys = tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES
    return any(variable is one for key in keys for one in tf.get_collection(key))
