"""Changes a graph as planned: copies operations for the towers, and connects them with the rest.

The operations of one device's graph stay. Those that run once take the towers' results, reduced or
concatenated. Those that towers run are copied, and the originals stay for code that fetches them by
name: only then do they compute the whole batch's value.
"""

from __future__ import annotations

from typing import Any, Callable, Container, Mapping, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning
from replicate.layouts import SIZE, SUM, Grown, Indices, Partial, Shard
from replicate.partition import copies as copies_lib
from replicate.partition import means, meetings, plans
from replicate.partition.constants import Constants
from replicate.partition.inputs import Inputs, TowerTensors
from replicate.partition.placement import Instead, Placement
from replicate.partition.plan import Plan, runs_once
from replicate.partition.rows import Rows

SCOPE = "replicate/partition/"  # Name scope of operations between the towers and the rest.


class Partitioned(NamedTuple):
    """A graph that runs in towers.

    Attributes:
        plan: The `Plan`.
        whole: Function of a tensor of one device's graph that returns its whole value.
        joined: By reference of a tensor that towers compute and that is needed whole: its whole
            value.
        by_tower: By reference of a tensor of the batch, or of one that is needed outside of the
            copies: the N towers' tensors.
        packs: The packs in which several tensors were reduced together.
        hooks: Hooks that it needs in training.
        coverage: The `Coverage`, None if it was not measured.
    """

    plan: Plan
    whole: Callable[[Any], Any]
    joined: Mapping[Any, Any]
    by_tower: TowerTensors
    packs: Sequence[meetings.Pack]
    hooks: tuple[Any, ...] = ()
    coverage: Any = None


def perform(
    plan: Plan,
    shards: Sequence[Sequence[Any]],
    rows: Rows,
    placement: Placement,
    instead: Instead,
    first: int = 0,
) -> Partitioned:
    """Changes the graph of a plan so that it runs in towers.

    Args:
        plan: The `Plan`.
        shards: For each source of its layouts, the N tensors of the towers.
        rows: The `Rows`.
        placement: The `Placement`.
        instead: Tensors that towers take in place of whole ones.
        first: The first tower that has copies. Those before it run the original operations.
    """
    graph = tf.get_default_graph()
    by_source = {
        graph_lib.reference(source.tensor): tuple(parts)
        for source, parts in zip(plan.layouts.sources, shards)
    }
    constants = Constants(placement.consolidation, plan.constants, plan.layouts)
    inputs = Inputs(plan.layouts, by_source, rows, placement, instead, constants)
    with graph_lib.outside_of_scopes(graph), tf.name_scope(SCOPE):
        copies = copies_lib.copy(plan, inputs, constants, placement, first)
        joined, packs = _join_all(plan, copies, inputs, rows, placement)
        # If the first tower runs the original operations, their shapes are those of a tower.
        if not first:
            _set_shapes(plan, joined)
        inputs.are_there(copies.by_tower, joined)

    def whole(tensor: Any) -> Any:
        if isinstance(tensor, tf.Operation):
            return tensor  # It runs once, after the copies that it has to wait for.
        if plan.layouts.layout_of(tensor) == SIZE:
            # The formula takes no inputs, but still has to follow operations that act before it.
            with graph_lib.outside_of_scopes(graph), tf.name_scope(SCOPE):
                before = plan.behind_sizes.get(graph_lib.reference(tensor))
                with tf.control_dependencies(before):
                    return tf.identity(inputs.size(tensor)) if before else inputs.size(tensor)
        return joined.get(graph_lib.reference(tensor), tensor)

    _reconnect(plan, copies, whole, joined)
    plans.keep(graph, plan)
    return Partitioned(plan, whole, joined, {**by_source, **copies.by_tower}, packs)


def _join_all(
    plan: Plan, copies: copies_lib.Copies, inputs: Inputs, rows: Rows, placement: Placement
) -> tuple[dict[Any, Any], list[meetings.Pack]]:
    """Returns the joined tensors, by references of the originals, and the packs."""
    keys = [graph_lib.reference(tensor) for tensor in plan.met]
    are_gradients = [key in plan.gradients for key in keys]
    places = placement.places_of_sums(plan.met, are_gradients)
    parts, counts = [], {}
    for tensor, key, place, is_gradient in zip(plan.met, keys, places, are_gradients):
        layout, by_tower = plan.layouts.layout_of(tensor), copies.by_tower[key]
        # Concatenated, they have to index the entries of all towers.
        if isinstance(layout, Indices):
            by_tower = _of_one_device(tensor, layout, by_tower, inputs, placement)
            layout = Shard(0, layout.unit)
        entries = None if is_gradient else means.entries_of(tensor, plan.layouts)
        if entries is not None:
            layout, by_tower = SUM, means.sums(by_tower)
            counts[key] = inputs.number(entries, tensor.dtype)
        counted = inputs.units.rows_of(layout.unit) if isinstance(layout, Partial) else rows
        blocks = inputs.units.blocks(layout.unit) if isinstance(layout, Shard) else None
        if isinstance(layout, Grown):
            with tf.control_dependencies(None):
                blocks = inputs.rounds(tensor, by_tower[0])
        part = meetings.Part(tensor, layout, plan.together[key], by_tower, place, counted)
        is_scaled = plan.gradients.get(key, False)
        parts.append(part._replace(is_gradient=is_gradient, is_scaled=is_scaled, blocks=blocks))
    joined, packs = meetings.meet(
        parts, rows, placement.devices, placement.reduction, placement.gradient_scale
    )
    for key, count in counts.items():
        with tf.device(joined[key].device), tf.control_dependencies(None):
            joined[key] = means.divided(joined[key], count)
    return joined, packs


def _of_one_device(
    tensor: Any, layout: Indices, by_tower: Sequence[Any], inputs: Inputs, placement: Placement
) -> tuple[Any, ...]:
    """Returns the towers' `Indices` as those of one device."""
    made = []
    for tower, value in enumerate(by_tower):
        with tf.device(placement.devices[tower]):
            made.append(value + inputs.offset(tensor, layout, tower))
    return tuple(made)


def _set_shapes(plan: Plan, joined: dict[Any, Any]) -> None:
    """Gives joined tensors the static shapes of the originals."""
    for tensor in plan.met:
        if tensor.shape.rank is not None:
            joined[graph_lib.reference(tensor)].set_shape(tensor.shape)


def _reconnect(
    plan: Plan,
    copies: copies_lib.Copies,
    whole: Callable[[Any], Any],
    joined: Container[Any],
) -> None:
    """Connects operations that run once to the towers' results.

    Originals of operations in towers also take joined tensors if these exist. So a fetch of an
    original by name computes no more than necessary.

    Args:
        plan: The `Plan`.
        copies: The `Copies`.
        whole: Function of a tensor that returns its whole value.
        joined: References of the tensors that are reduced or concatenated.
    """
    copied = set(plan.copied)
    instead = {operation: copies.copies_of(operation) for operation in _waited_for(plan, copied)}
    sizes = {key for key, one in plan.layouts.by_reference.items() if one == SIZE}
    for operation in plan.operations:
        once = runs_once(operation, plan.layouts)
        is_formula = operation in plan.layouts.sizes
        takes_sizes = once and not is_formula
        # Originals of operations in towers, and those that are formulas themselves, keep integers
        # that are computed from originals.
        for index, tensor in enumerate(list(operation.inputs)):
            key = graph_lib.reference(tensor)
            changes = takes_sizes if key in sizes else key in joined
            if changes:
                partitioning.take(operation, index, whole(tensor))
        # A round of one device's loop cannot wait for a round of a tower's loop.
        if once and not (is_formula and graph_lib.in_while_loop(operation)):
            if operation in plan.control_inputs:
                gone = plan.unnoticed.get(operation, ())
                partitioning.wait_instead(operation, instead, gone)
            extra_waits = [
                copy
                for before in plan.extra_waits.get(operation, ())
                for copy in (copies.copies_of(before) if before in copied else [before])
            ]
            if extra_waits:
                graph_lib.add_control_inputs(operation, extra_waits)


def _waited_for(plan: Plan, copied: Any) -> list[Any]:
    """Returns operations in towers for which an operation that runs once waits."""
    return [
        before
        for operation, control_inputs in plan.control_inputs.items()
        if runs_once(operation, plan.layouts)
        for before in control_inputs
        if before in copied
        and not runs_once(before, plan.layouts)
        and before not in plan.unnoticed.get(operation, ())
    ]
