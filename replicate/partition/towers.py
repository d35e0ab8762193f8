"""Builds a model as the program of one tower, and makes the others from it."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import estimator, partitioning, seeds
from replicate.compat import graph as graph_lib
from replicate.layouts import WHOLE, Layouts
from replicate.partition import (
    boundary,
    per_tower,
    per_tower_updates,
    specs,
    summaries,
)
from replicate.partition.build import carry_out
from replicate.partition.effects import HOLDERS
from replicate.partition.placement import Placement
from replicate.partition.plan import make_plan
from replicate.partition.program import Program
from replicate.partition.rows import Rows
from replicate.partition.surgery import Partitioned
from replicate.reduction import chosen


def build_towers(
    model_fn: Callable[[Any, Any], Any],
    shards: Any,
    mode: str | None,
    placement: Placement,
    *,
    summed: bool,
    which_summaries: str,
    since: int,
) -> Any:
    """Returns the `EstimatorSpec` of a model that is built as the program of one tower.

    Args:
        model_fn: Function of features and labels that builds the program and returns its spec.
        shards: The `Shards` of the batch.
        mode: The mode that it is built for.
        placement: The `Placement`.
        summed: Whether the towers' losses are added up, instead of averaged by rows.
        which_summaries: As `replicate_model_fn` takes `summaries`.
        since: Id of the last operation before those that split the batch.

    Raises:
        TypeError: If the model returns no spec.
        ValueError: If towers update variables, and nothing defines how their values become one.
    """
    graph = tf.get_default_graph()
    rows = Rows(shards.rows, shards.total, shards.starts, shards.held)
    program = Program(placement.devices, placement.consolidation, rows, summed)
    features, labels = boundary.give_rows(shards, program)
    first = len(graph.get_operations())
    added = graph_lib.last_id(graph) - since
    entered, seed_scope = graph_lib.entered_once(graph), seeds.as_on_one_device(graph, added)
    device = tf.device(placement.device_function(HOLDERS))
    with entered, seed_scope, program.building(), device, chosen.listening() as choice:
        spec = model_fn(features, labels)
    known, last = per_tower.infer(program, first), graph_lib.last_id(graph)
    per_tower_updates.combine(graph.get_operations()[first:], known.layouts, program)
    spec = summaries.combine(spec, known.layouts, program, which_summaries)
    if graph_lib.last_id(graph) > last:  # These two have changed the graph.
        known = per_tower.infer(program, first)
    spec = _of_batch(spec, mode, known.layouts, program)
    # The marks of `_of_batch` have been added.
    known = per_tower.extend(known, program, first)
    asked = specs.asked_of(spec, mode == estimator.ModeKeys.TRAIN)
    partitioned = _partition(known, asked, program, placement.with_choice(choice), choice)
    spec = specs.map_tensors(spec, partitioned.whole)
    return specs.with_hooks(spec, partitioned.hooks)


def _of_batch(spec: Any, mode: str | None, layouts: Layouts, program: Program) -> Any:
    """Returns the `EstimatorSpec` of the whole batch, made from the first tower's."""

    def whole(asked: Any) -> Any:
        if isinstance(asked, tf.Operation) or layouts.layout_of(asked) == WHOLE:
            return asked
        return program.whole_of(asked)

    def of_loss(tensor: Any) -> Any:
        if layouts.layout_of(tensor) == WHOLE:
            return tensor
        return program.whole(tensor, program.loss_layout)

    def of_host(field: str, key: Any, tensor: Any) -> Any:
        specs.check_has_rows(field, key, tensor)
        return whole(tensor)

    with graph_lib.outside_of_scopes(program.graph):
        spec = specs.with_host_tensors(spec, of_host)
        with program.running_once():
            spec = specs.checked(specs.as_estimator_spec(spec))
        if mode == estimator.ModeKeys.TRAIN:
            spec = spec._replace(predictions=None)  # Training does not use them.
        return specs.map_tensors(spec, whole, of_loss)


def _partition(
    known: per_tower.Inferred,
    asked: Sequence[Any],
    program: Program,
    placement: Placement,
    choice: chosen.Choice,
) -> Partitioned:
    """Makes the other towers, and connects marks to the values of all towers."""
    operations, layouts = known.operations, known.layouts
    # The model was built on the consolidation device, but its operations belong to tower 0.
    for operation in layouts.strategies:
        if operation.device == placement.consolidation and not _is_at_resource(operation):
            partitioning.place(operation, placement.devices[0])
    apart = [one.tensor for one in program.of_towers]
    tensors = [one for one in asked if isinstance(one, tf.Tensor)]
    plan = make_plan(operations, layouts, tensors, choice.gradients, apart)
    shards = [one.values for one in program.per_tower]
    partitioned = carry_out(plan, shards, program.rows, placement, first=1)
    for mark, tensor, tower in program.of_towers:
        values = partitioned.by_tower.get(graph_lib.reference(tensor))
        if values is not None:
            partitioning.take(mark, 0, values[tower])
    return partitioned


def _is_at_resource(operation: Any) -> bool:
    return any(tensor.dtype == tf.resource for tensor in operation.inputs)
