"""Partitions the graph of one device over towers: layouts, plan, surgery."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from replicate.layouts import Source, infer
from replicate.partition import replicas, weights
from replicate.partition.order import in_order
from replicate.partition.placement import Placement
from replicate.partition.plan import make_plan
from replicate.partition.rows import Rows
from replicate.partition.surgery import Partitioned, perform


def partition(
    sources: Sequence[Source],
    shards: Sequence[Sequence[Any]],
    rows: Rows,
    placement: Placement,
    operations: Sequence[Any],
    asked: Iterable[Any] = (),
    whole_types: frozenset[str] = frozenset(),
    gradients: Iterable[Any] = (),
) -> Partitioned:
    """Partitions what was built in the default graph.

    Args:
        sources: The tensors of the batch.
        shards: For each of them its N shards.
        rows: The `Rows`.
        placement: The `Placement`.
        operations: What was built, in the order in which it was made.
        asked: Tensors that are needed whole besides those that operations take.
        whole_types: Types of operations that run once whatever their rule says.
        gradients: What optimizers apply.
    """
    operations = in_order(operations)
    layouts = infer(operations, sources, rows.dim, whole_types)
    plan = make_plan(operations, layouts, asked, gradients)
    if not placement.replicates:
        return perform(plan, shards, rows, placement, weights.pack(plan, placement))
    copies = replicas.make(plan, placement)
    partitioned = perform(plan, shards, rows, placement, copies.instead)
    replicas.follow(copies, placement)
    return partitioned._replace(hooks=(replicas.FollowLater(copies, placement),))
