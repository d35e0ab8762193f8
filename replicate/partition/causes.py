"""Finds the operations that keep parts of a step out of towers, why, and what would help."""

from __future__ import annotations

import fnmatch
from typing import Any, Mapping, NamedTuple

from replicate.compat import graph as graph_lib
from replicate.compat import op_types
from replicate.graphs import INLINED, call_of
from replicate.layouts import (
    RANDOM,
    Layouts,
    Monomial,
    Shard,
    is_shard,
    pointing_rule_of,
    reason_of,
    rule_of,
    runs_once_to_send_less,
)
from replicate.partition.plan import Plan

_ALL, _BY_ROW = "it needs all rows", "compute it row by row"
_ADVICE = {
    "*PyFunc": "reshape its result to as many rows as the batch has, by "
    "`tf.reshape(result, [tf.shape(x)[0], ...])` of a tensor x of the batch",
    "Argsort Gather* Slice Sort* Split* StridedSlice TopK* Unique* Where": "mask or weight rows, "
    "instead of selecting or sorting them",
    "Squeeze": "name the axes, as by `tf.squeeze(x, [1])`: without names, that of a single row "
    "would be removed, too",
}
_FILL = ("TensorArrayScatter*", "TensorArraySplit*", "TensorListFromTensor", "TensorListScatter*")


class RunsOnce(NamedTuple):
    """An operation that takes the concatenated rows of all towers, and runs once.

    Attributes:
        operation: The operation. For a loop of TensorFlow 2, the one that calls its functions.
        cost: Its cost, and that of operations that run once and follow from it.
        why: Why it does not run in towers.
        advice: What would have the operations that follow in towers, as an imperative.
    """

    operation: Any
    cost: float
    why: str
    advice: str


def find(plan: Plan, costs: Mapping[Any, float]) -> list[RunsOnce]:
    """Returns operations that take concatenated rows and run once.

    The cost of an operation that follows from several of them is added to the first one's. The
    operations of a loop follow from each other, as rounds do.

    Args:
        plan: The `Plan`.
        costs: By operation that runs once: its cost.
    """
    found: list[RunsOnce] = []
    owners: dict[Any, int] = {}  # By operation, or by loop.
    for operation in plan.operations:
        if operation not in costs:
            continue
        loop = graph_lib.outermost_loop(operation)
        followed = [*(tensor.op for tensor in operation.inputs), loop]
        before = [owners[one] for one in followed if one in owners]
        if before:
            owner = min(before)
            found[owner] = found[owner]._replace(cost=found[owner].cost + costs[operation])
        elif any(is_shard(plan.layouts.layout_of(tensor)) for tensor in operation.inputs):
            owner = len(found)
            found.append(_cause(operation, loop, costs[operation], plan.layouts))
        else:
            continue
        owners[operation] = owner
        if loop is not None:
            owners[loop] = owner
    return found


def _cause(operation: Any, loop: Any, cost: float, layouts: Layouts) -> RunsOnce:
    called = call_of(operation)
    refused = None if loop is None else layouts.refused.get(loop[0])
    if refused is not None:
        name = refused.name.rpartition(f"/{INLINED}/body/")[2]
        if refused.type in RANDOM:
            said = "draws random numbers for all rows in each round of the loop"
            advice = 'draw them before the loop, or leave `random="batch"` out'
            return RunsOnce(called, cost, f"'{name}', {refused.type}, {said}", advice)
        why = _why(refused.type)
        said = (
            "needs all rows in each round of the loop" if why == _ALL else f"is in the loop: {why}"
        )
        advice = "compute that row by row, or outside of the loop"
        return RunsOnce(called, cost, f"'{name}', {refused.type}, {said}", advice)
    if any(fnmatch.fnmatchcase(operation.type, one) for one in _FILL) and any(
        layouts.layout_of(tensor) == Shard(0) for tensor in operation.inputs
    ):
        advice = "compute all rows at once, for example with `tf.vectorized_map`"
        return RunsOnce(called, cost, "a loop takes one row after another", advice)
    if runs_once_to_send_less(operation, layouts):
        why = "it picks or adds up rows by indices, and less crosses between devices so"
        bound = "bound each row's own places, as by `tf.clip_by_value(places, 0, size - 1)`"
        return RunsOnce(called, cost, why, bound)
    if operation.type == "Reshape" and _has_rows_of_unknown_size(operation.inputs[0], layouts):
        known = "let `input_fn` give rows their shape, as by `tensor.set_shape([None, 784])`"
        return RunsOnce(called, cost, "the graph does not know the size of a row", known)
    is_call = op_types.calls_functions(operation)
    why = "its function has effects, or cannot be inlined" if is_call else _why(operation.type)
    return RunsOnce(called, cost, why, _advice(operation.type))


def _has_rows_of_unknown_size(tensor: Any, layouts: Layouts) -> bool:
    found, layout = layouts.facts.dims(tensor), layouts.layout_of(tensor)
    is_of_rows = isinstance(layout, Shard) and not layout.axis
    return is_of_rows and any(isinstance(size, Monomial) for size in (found or ())[1:])


def _why(kind: str) -> str:
    # Types of sparse and ragged rows have their rules in the second table alone.
    if rule_of(kind) is not None or pointing_rule_of(kind) is not None:
        return _ALL
    return reason_of(kind) or f"there is no rule for {kind}"


def _advice(kind: str) -> str:
    for patterns, advice in _ADVICE.items():
        if any(fnmatch.fnmatchcase(kind, one) for one in patterns.split()):
            return advice
    return _BY_ROW
