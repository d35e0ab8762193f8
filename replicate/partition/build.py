"""Partitions the graph of one device over towers: infers layouts, plans, and changes the graph."""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterable, Sequence

import tensorflow.compat.v1 as tf

from replicate.graphs import ancestors
from replicate.layouts import Source, infer
from replicate.partition import coverage, fetching, moments, outside, plans, replicas, weights
from replicate.partition.lower import lower
from replicate.partition.order import in_order
from replicate.partition.placement import Placement
from replicate.partition.plan import Plan, make_plan
from replicate.partition.rows import Rows
from replicate.partition.surgery import Partitioned, perform
from replicate.reduction import nccl


def partition(
    sources: Sequence[Source],
    shards: Sequence[Sequence[Any]],
    rows: Rows,
    placement: Placement,
    operations: Sequence[Any],
    asked: Iterable[Any] = (),
    runs_once: Callable[[Any], bool] = lambda operation: False,
    gradients: Iterable[Any] = (),
    losses: Iterable[Any] = (),
    unscaling: Collection[Any] = (),
    is_measured: bool = False,
    of_all_rows: bool = False,
) -> Partitioned:
    """Partitions operations of the default graph.

    Args:
        sources: The tensors of the batch.
        shards: For each source, its N shards.
        rows: The `Rows`.
        placement: The `Placement`.
        operations: The operations, in the order in which they were made.
        asked: Tensors and operations that sessions fetch; the tensors are needed whole.
        runs_once: Function of an operation that returns whether it must run once, even if there is
            a rule by which towers could run it.
        gradients: The gradients that optimizers apply.
        losses: As `make_plan` takes them.
        unscaling: Likewise.
        is_measured: Whether to measure which share of the operations runs in towers.
        of_all_rows: Whether fused batch norm uses the moments of all rows.

    Returns:
        The `Partitioned`. Its `whole` takes tensors and operations of the graph as it was before.
    """
    asked, losses = list(asked), list(losses)
    given = in_order(operations)
    # Both of these replace operations, so tensors that were asked for are mapped by `now`.
    lowered = lower(given, sources, asked)
    operations = in_order(lowered.operations) if lowered.operations is not given else given
    twice = moments.differentiated(operations, map(lowered.now, losses))
    written = None
    if of_all_rows or twice:
        written = moments.write_out(operations, sources, None if of_all_rows else twice)
        if written.operations is not operations:
            operations = in_order(written.operations)

    def now(asked: Any) -> Any:
        found = lowered.now(asked)
        return found if written is None else written.now(found)

    # Norms of `twice` are left that are in branches or loops.
    once = [operation for operation in operations if runs_once(operation) or operation in twice]
    layouts = infer(operations, sources, rows.dim, once, len(placement.devices))
    applied = [now(leaf) for leaf in _tensors(gradients)]
    needed = [now(tensor) for tensor in asked if isinstance(tensor, tf.Tensor)]
    forward = [now(loss) for loss in losses]
    known: dict[Any, list[Any]] = {}
    run = [now(one) for one in asked]
    running = ancestors(run, known=known)
    plan = make_plan(operations, layouts, needed, applied, (), forward, unscaling, running)
    # It walks through the graph of one device, so it comes before the change.
    measured = None
    if is_measured:
        measured = coverage.measure(plan, run, running, known, len(placement.devices))
    partitioned = carry_out(plan, shards, rows, placement)
    if measured is not None:
        plans.keep_coverage(tf.get_default_graph(), measured)

    def whole(asked: Any) -> Any:
        found = now(asked)
        return partitioned.whole(found) if isinstance(found, tf.Tensor) else found

    hooks = (fetching.give_joined(now, partitioned.joined), *partitioned.hooks)
    return partitioned._replace(whole=whole, hooks=hooks, coverage=measured)


def carry_out(
    plan: Plan, shards: Sequence[Sequence[Any]], rows: Rows, placement: Placement, first: int = 0
) -> Partitioned:
    """Changes the graph as planned, with variables where the placement puts them; see `perform`."""
    hooks: list[Any] = []
    if placement.reduction.where == "nccl":
        hooks.append(nccl.CheckHook(placement.devices, placement.consolidation))
    if not placement.replicates:
        instead = weights.pack(plan, placement)
        return perform(plan, shards, rows, placement, instead, first)._replace(hooks=tuple(hooks))
    copies = replicas.make(plan, placement)
    outside.refuse_gradients(plan, copies)
    # Variables without replicas are sent in packs.
    instead = {**weights.pack(plan, placement, copies.instead), **copies.instead}
    partitioned = perform(plan, shards, rows, placement, instead, first)
    replicas.follow(copies, placement, partitioned.packs)
    later = outside.FollowLater(copies, placement, partitioned.packs)
    return partitioned._replace(hooks=(*hooks, later))


def _tensors(gradients: Iterable[Any]) -> list[Any]:
    leaves = tf.nest.flatten(list(gradients), expand_composites=True)
    return [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]
