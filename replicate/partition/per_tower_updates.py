"""Updates of what towers share, from what each of them has of its own.

A variable is written once. What is added to a metric's variable is added up over towers, any other
value is averaged by rows, as moving averages need it; a variable's `aggregation` says otherwise.
Slices are those of all towers.
"""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types, partitioning
from replicate.compat.functions import function_bodies, functions_of
from replicate.graphs import line_of, state
from replicate.layouts import MEAN, SUM, WHOLE, Layouts, Shard
from replicate.partition.program import Program

_SET = frozenset(["Assign", "AssignVariableOp"])
_ADD = frozenset(["AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp"])
_FIRST = ("ONLY_FIRST_REPLICA", "ONLY_FIRST_TOWER")


def put_together(operations: Sequence[Any], layouts: Layouts, program: Program) -> None:
    """Lets updates take the values of all towers.

    Args:
        operations: The operations of the program.
        layouts: Their `Layouts`.
        program: The `Program`, which is told of more marks.

    Raises:
        ValueError: If what is trained is updated from what one tower has, or if nothing says how
            towers' values become one.
    """
    variables = _by_operation()
    bodies: dict[str, Any] = {}
    for operation in operations:
        if operation not in layouts.strategies:
            continue
        if state.writes_summaries(operation):
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


def _update(operation: Any, variable: Any, layouts: Layouts, program: Program) -> None:
    aggregation = getattr(getattr(variable, "aggregation", None), "name", None)
    value = operation.inputs[-1]
    if aggregation in _FIRST:
        how: Any = None
    elif operation.type not in _SET | _ADD:
        how = Shard(0)
    elif operation.type in _ADD and (aggregation == "SUM" or _is_local(variable)):
        how = SUM
    elif value.dtype.is_floating and aggregation != "SUM":
        how = MEAN
    else:
        raise ValueError(
            "All towers share a variable, but nothing says how what they have becomes one value of "
            f"{variable.name}, which {operation.type} {operation.name} ({line_of(operation)}) "
            "updates. Update it by a `replicate.cross_tower_sum`, or in a `replicate.merge_call`."
        )
    for index, tensor in enumerate(list(operation.inputs)):
        if layouts.layout_of(tensor) == WHOLE:
            continue
        whole = program.each(tensor)[0] if how is None else program.whole(tensor, how)
        partitioning.take(operation, index, whole)


def _check(operation: Any, variable: Any) -> None:
    """Raises a ValueError if a variable cannot be updated from what one tower has."""
    if getattr(variable, "trainable", False):
        raise ValueError(
            "With `per_tower=True`, what is trained is updated by the gradients of all towers, but "
            f"{operation.type} {operation.name} ({line_of(operation)}) updates {variable.name} "
            "from what one tower has. Wrap the optimizer, as in `replicate.TowerOptimizer("
            "tf.train.AdamOptimizer(1e-3))`, or take a `replicate.cross_tower_mean` or "
            "`cross_tower_sum`."
        )
    if graph_lib.is_in_control_flow(operation):
        raise ValueError(_in_body(operation, variable.name))


def _check_functions(operation: Any, bodies: dict[str, Any]) -> None:
    """Raises a ValueError if a function that towers call by themselves updates a variable."""
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
        "With `per_tower=True`, each tower runs a condition, loop or function by itself if what it "
        f"takes is the tower's own, but {operation.type} {operation.name} ({line_of(operation)}) "
        f"updates a variable there ({what}). Update it before or after, by what the body returns."
    )


def _by_operation() -> dict[Any, Any]:
    """Returns variables by the operation that holds them."""
    found = [*tf.global_variables(), *tf.local_variables()]
    return {variable.op: variable for variable in found if hasattr(variable, "op")}


def _is_local(variable: Any) -> bool:
    keys = tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES
    return any(variable is one for key in keys for one in tf.get_collection(key))
