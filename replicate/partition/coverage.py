"""Measures how much of a step runs in towers, from shapes, before the graph runs."""

from __future__ import annotations

from typing import Any, Collection, Iterator, NamedTuple, Sequence

from replicate.compat import graph as graph_lib
from replicate.graphs import ancestors
from replicate.layouts import (
    MULTIPLIES,
    ROWS,
    WHOLE,
    Costs,
    Layouts,
    Partial,
    Shard,
    array_of,
    is_shard,
)
from replicate.partition import causes
from replicate.partition.plan import Plan, runs_once

_ROWS_PER_TOWER = 32  # Assumed if the graph does not know the number of rows.


class Counted(NamedTuple):
    """An operation of a step.

    Attributes:
        operation: The operation.
        kind: `'towers'`, `'one_device'` or `'updates'`, as in `Coverage`.
        cost: Its cost.
    """

    operation: Any
    kind: str
    cost: float


class Meeting(NamedTuple):
    """A tensor whose shards or partials, one per tower, are concatenated or reduced.

    Attributes:
        maker: The operation that makes it.
        takers: Operations that take it whole; () if it is only fetched.
        kind: `'join'` for a concatenation of rows, else the reduction of partials, such as `'sum'`.
        size: Bytes of the whole tensor.
    """

    maker: Any
    takers: tuple[Any, ...]
    kind: str
    size: float


class Coverage(NamedTuple):
    """The cost of a step: the number of additions, multiplications and functions of a number.

    Attributes:
        towers: Cost of operations in towers, each for a tower's rows.
        one_device: Cost of operations that run once, on the consolidation device.
        updates: Cost of all others: updates of variables, and operations that neither precede those
            in towers nor follow from joined rows.
        multiplied: The share of matrix products and convolutions in `towers`, and in `one_device`.
        joined: Operations that run once since they take concatenated rows, in order.
        operations: All operations of the step, in order.
        meetings: Tensors that are concatenated or reduced over towers.
    """

    towers: float
    one_device: float
    updates: float
    multiplied: tuple[float, float]
    joined: tuple[causes.RunsOnce, ...]
    operations: tuple[Counted, ...] = ()
    meetings: tuple[Meeting, ...] = ()

    @property
    def share(self) -> float:
        """The share, from 0 to 1, of `towers` in the cost of `towers` and `one_device`."""
        return self.towers / ((self.towers + self.one_device) or 1.0)

    @property
    def share_told(self) -> float | None:
        """The share to report: that of multiplications if there are any, else that of all costs."""
        told = self.share_multiplied
        return told if told is not None or not self.towers + self.one_device else self.share

    @property
    def costliest(self) -> list[causes.RunsOnce]:
        """The operations that run once on joined rows, the costliest first."""
        return sorted((one for one in self.joined if one.cost), key=lambda one: -one.cost)

    @property
    def share_multiplied(self) -> float | None:
        """The share of towers in matrix products and convolutions; None if there are none."""
        towers, once = self.multiplied
        return towers / (towers + once) if towers + once else None


def measure(
    plan: Plan,
    asked: Sequence[Any],
    running: Collection[Any],
    known: dict[Any, list[Any]],
    towers: int,
) -> Coverage:
    """Measures how much of a step runs in towers; the graph must not have been changed yet.

    Args:
        plan: The `Plan`.
        asked: The tensors and operations that a step fetches or runs.
        running: The operations that a step runs on one device.
        known: As `ancestors` takes it.
        towers: N.
    """
    layouts, copied = plan.layouts, set(plan.copied)
    costs = Costs(layouts.facts, {ROWS: towers * _ROWS_PER_TOWER})
    leading = ancestors(plan.copied, known=known) if plan.copied else frozenset()
    rounds = _rounds(plan, costs)
    sums = {"towers": 0.0, "one_device": 0.0, "updates": 0.0}
    multiplied = {"towers": 0.0, "one_device": 0.0, "updates": 0.0}
    by_operation: dict[Any, float] = {}
    counted: list[Counted] = []
    for operation in plan.operations:
        if operation in layouts.sizes:
            continue  # Formulas replace it.
        once = operation not in layouts.strategies
        if operation not in copied and not (once and operation in running):
            continue
        cost = costs.cost_of(operation)
        # In nested loops, rounds multiply.
        for loop in graph_lib.loops_of(operation) if rounds else ():
            cost *= rounds.get(loop[0], 1.0)
        if not once and _is_shared(operation, layouts):
            kind = "towers"
        elif operation in leading or (
            _follows(operation, layouts, by_operation) and not _updates(operation)
        ):
            # Towers wait for it, or it is computed from rows.
            kind = "one_device"
            by_operation[operation] = cost
        else:
            kind = "updates"
        sums[kind] += cost
        counted.append(Counted(operation, kind, cost))
        multiplied[kind] += cost if operation.type in MULTIPLIES else 0.0
    return Coverage(
        sums["towers"],
        sums["one_device"],
        sums["updates"],
        (multiplied["towers"], multiplied["one_device"]),
        tuple(causes.find(plan, by_operation)),
        tuple(counted),
        tuple(_meetings(plan, costs, set(asked), running)),
    )


def _meetings(
    plan: Plan, costs: Costs, asked: Collection[Any], running: Collection[Any]
) -> Iterator[Meeting]:
    """Yields the meetings of a step, without those of tensors that are only fetched by name."""
    copied = set(plan.copied)
    named = {graph_lib.reference(one) for one in asked if hasattr(one, "dtype")}
    for tensor in plan.met:
        takers = tuple(
            taker
            for taker in tensor.consumers()
            if (taker in copied and _takes_otherwise(taker, tensor, plan))
            or (taker in running and _takes_values(taker, plan))
        )
        if not takers and graph_lib.reference(tensor) not in named:
            continue
        layout = plan.layouts.layout_of(tensor)
        kind = layout.op if isinstance(layout, Partial) else "join"
        yield Meeting(tensor.op, takers, kind, costs.entries(tensor) * tensor.dtype.size)


def _takes_values(taker: Any, plan: Plan) -> bool:
    """Whether an operation runs once and uses the values of its inputs, not only their sizes."""
    return runs_once(taker, plan.layouts) and taker not in plan.layouts.sizes


def _takes_otherwise(taker: Any, tensor: Any, plan: Plan) -> bool:
    """Whether an operation in towers takes a tensor whole, or split along another axis."""
    key, layout = graph_lib.reference(tensor), plan.layouts.layout_of(tensor)
    demands = zip(taker.inputs, plan.layouts.strategies[taker].inputs)
    return any(
        graph_lib.reference(one) == key and (demand == WHOLE or _is_resharded(layout, demand))
        for one, demand in demands
    )


def _is_resharded(layout: Any, demand: Any) -> bool:
    return isinstance(layout, Shard) and isinstance(demand, Shard) and layout.axis != demand.axis


def _is_shared(operation: Any, layouts: Layouts) -> bool:
    """Whether towers share the work of an operation; else each of them does the same."""
    strategy = layouts.strategies[operation]
    return any(one != WHOLE for one in (*strategy.inputs, *strategy.outputs))


def _follows(operation: Any, layouts: Layouts, of_rows: Collection[Any]) -> bool:
    """Whether an operation takes rows, or values of operations that are computed `of_rows`."""
    return any(
        is_shard(layouts.layout_of(tensor)) or tensor.op in of_rows for tensor in operation.inputs
    )


def _updates(operation: Any) -> bool:
    """Whether an operation takes a variable; arrays of loops have handles, too."""
    return array_of(operation) is None and any(
        tensor.dtype.name == "resource" or tensor.dtype != tensor.dtype.base_dtype
        for tensor in operation.inputs
    )


def _rounds(plan: Plan, costs: Costs) -> dict[str, float]:
    """Returns the number of rounds of loops, as far as the graph knows it, by names of frames."""
    found: dict[str, float] = {}
    for operation in plan.operations:
        if operation.type != "LoopCond":
            continue
        loop = graph_lib.loops_of(operation)[-1][0]
        limits = [costs.size(limit) for limit in _limits(operation.inputs[0], plan.layouts)]
        # The loop of a gradient has as many rounds as the loop that it is the gradient of.
        counted = [found[one] for one in _counted_by(operation.inputs[0], loop) if one in found]
        found[loop] = min([*limits, *counted], default=costs.size(_UNKNOWN))
    return found


_PASS_ON = ("Identity", "Switch", "Merge")
_COMPARE = ("Less", "Greater", "GreaterEqual")
_UNKNOWN: Any = 16  # Assumed number of rounds of a loop without a known limit.


def _limits(predicate: Any, layouts: Layouts) -> list[Any]:
    """Returns the limits with which counters are compared, in all conditions for another round."""
    operation = predicate.op
    if operation.type in ("LogicalAnd", *_PASS_ON):
        return [limit for tensor in operation.inputs[:2] for limit in _limits(tensor, layouts)]
    if operation.type != "Less" or not operation.inputs[1].dtype.is_integer:
        return []
    value = layouts.facts.value(operation.inputs[1])
    return [] if value is None or value.shape != () else [value.item()]


def _counted_by(predicate: Any, loop: str) -> list[str]:
    """Returns the other loops whose rounds a condition for another round compares with."""
    operation = predicate.op
    if operation.type in ("LogicalAnd", *_PASS_ON):
        return [one for tensor in operation.inputs[:2] for one in _counted_by(tensor, loop)]
    compared = operation.inputs if operation.type in _COMPARE else ()
    return [one for one in (_loop_before(tensor, loop) for tensor in compared) if one]


def _loop_before(tensor: Any, loop: str) -> str | None:
    """Returns the loop that a value of a loop comes from, None if it comes from none."""
    operation = tensor.op
    while operation.type in _PASS_ON or operation.type in graph_lib.ENTER:
        operation = operation.inputs[0].op
    loops = graph_lib.loops_of(operation) if operation.type in graph_lib.EXIT else []
    return loops[-1][0] if loops and loops[-1][0] != loop else None
