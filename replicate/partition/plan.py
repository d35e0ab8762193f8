"""Decides which operations are copied for towers, and which of their tensors are joined."""

from __future__ import annotations

from typing import Any, Collection, Iterable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.graphs import ancestors
from replicate.layouts import SIZE, Layouts
from replicate.partition import constants, named, rereads
from replicate.partition.needs import Needs
from replicate.partition.origins import Origins


class Plan(NamedTuple):
    """The changes that let a graph run in towers.

    Attributes:
        layouts: The `Layouts` of its tensors.
        operations: All of its operations, in order.
        copied: Operations that towers run, in order.
        met: Tensors that towers compute, mostly as shards or partials, and that are needed whole,
            in order.
        apart: Tensors whose per-tower values are taken one by one.
        together: By reference of each tensor in `met`: a key. Tensors of one key may cross devices
            in one pack.
        gradients: By reference of each tensor in `met` that becomes a gradient for optimizers:
            whether it is still multiplied by the loss scale.
        control_inputs: By operation that has any: the operations that it waits for in the graph of
            one device.
        waits: By operation that towers run: the operations that its copies wait for.
        extra_waits: By operation that runs once: further operations to wait for, because a formula
            replaced an input that followed them.
        unnoticed: By operation that runs once: control inputs that make no difference; see
            `Origins.waits`.
        behind_sizes: By reference of a fetched tensor that a formula replaces: the operations that
            act before it, and have to be waited for.
        rereads: The inputs of operations in towers that read a reference variable after an update.
        constants: By operation that runs once and depends on constants alone, so that each tower
            runs a copy instead of receiving the output: the operations that a tower's copy waits
            for; see `constants.find`.
        needed: By operation: the initializers that need it; see `initializers.needed`.
    """

    layouts: Layouts
    operations: tuple[Any, ...]
    copied: tuple[Any, ...]
    met: tuple[Any, ...]
    apart: tuple[Any, ...]
    together: dict[Any, Any]
    gradients: dict[Any, bool]
    control_inputs: dict[Any, list[Any]]
    waits: dict[Any, list[Any]]
    extra_waits: dict[Any, list[Any]]
    unnoticed: dict[Any, frozenset[Any]]
    behind_sizes: dict[Any, list[Any]]
    rereads: rereads.Writes
    constants: constants.Waits
    needed: dict[Any, int]


def make_plan(
    operations: Sequence[Any],
    layouts: Layouts,
    asked: Iterable[Any],
    gradients: Iterable[Any] = (),
    apart: Iterable[Any] = (),
    losses: Iterable[Any] = (),
    unscaling: Collection[Any] = (),
    running: Collection[Any] = (),
) -> Plan:
    """Returns the `Plan` of a graph.

    Args:
        operations: Its operations, in topological order.
        layouts: Their `Layouts`.
        asked: Tensors that are fetched, and so needed whole.
        gradients: The gradients that optimizers apply: tensors, `tf.IndexedSlices`, or None.
        apart: Tensors whose per-tower values are taken one by one.
        losses: The losses of these gradients. Tensors that lead to them are no gradients, although
            gradients may be computed from them.
        unscaling: Operations that divide gradients by the loss scale.
        running: The operations that a training step runs. Others, such as those of summaries, do
            not run with them.
    """
    origins = Origins(operations, layouts)
    needs = Needs(layouts, origins)
    unnoticed = _unnoticed(operations, layouts, origins)
    # Operations that run once need whole inputs, and wait for operations that may be in towers.
    for operation in operations:
        # Formulas take no inputs, so those of operations that they replace are not needed.
        if runs_once(operation, layouts) and operation not in layouts.sizes:
            for tensor in operation.inputs:
                needs.whole(tensor)
            dead = origins.dead_with(operation)
            for before in [*_noticed(operation, unnoticed, origins), *dead]:
                if not runs_once(before, layouts):
                    needs.copy(before)
    asked = list(asked)
    for tensor in asked:
        needs.whole(tensor)
    # A tensor that runs once is the same in all towers, and needs no copies.
    apart = tuple(tensor for tensor in apart if tensor.op in layouts.strategies)
    for tensor in apart:
        needs.copy(tensor.op)
    needs.follow()
    needed = set(needs.met)
    # A generator: as it goes on, it reads `needs`, to which each call of `whole` adds.
    for tensor in named.find(operations, needs, layouts, origins):
        needs.whole(tensor)
    needs.follow()
    copied = tuple(operation for operation in operations if operation in needs.copied)
    met = tuple(
        tensor
        for operation in copied
        for tensor in operation.outputs
        if graph_lib.reference(tensor) in needs.met
    )
    hidden = _hidden(copied, origins)
    together = {
        # In a pack, a tensor that is only fetched by name would run whenever the others do.
        key: (origins.together(tensor), tensor.op in running) if key in needed else key
        for key, tensor in ((graph_lib.reference(tensor), tensor) for tensor in met)
    }
    waits = {
        operation: [
            *origins.waits(operation),
            *origins.dead_with(operation),
            *hidden.get(operation, []),
        ]
        for operation in copied
    }
    extra_waits = _extra_waits(operations, needs.copied, layouts, origins, unnoticed)
    applied = _behind(gradients, needs, losses, unscaling)
    behind = {
        graph_lib.reference(tensor): origins.actors(tensor.op)
        for tensor in asked
        if layouts.layout_of(tensor) == SIZE
    }
    return Plan(
        layouts=layouts,
        operations=tuple(operations),
        copied=copied,
        met=met,
        apart=apart,
        together=together,
        gradients=applied,
        control_inputs=origins.all_control_inputs,
        waits=waits,
        extra_waits=extra_waits,
        unnoticed=unnoticed,
        behind_sizes=behind,
        rereads=rereads.find(operations, copied, origins),
        constants=constants.find(operations, layouts, origins, needs.copied),
        needed=origins.needed,
    )


def _extra_waits(
    operations: Sequence[Any],
    copied: Collection[Any],
    layouts: Layouts,
    origins: Origins,
    unnoticed: dict[Any, frozenset[Any]],
) -> dict[Any, list[Any]]:
    """Returns, by operation that runs once, what it waits for beside its control inputs."""
    found = {}
    for operation in operations:
        if not runs_once(operation, layouts):
            continue
        # Control inputs that it has already are replaced by their copies later.
        now = set(origins.control_inputs(operation))
        kept = _noticed(operation, unnoticed, origins)
        others = [before for before in kept if before not in now]
        others += origins.hidden(operation) + origins.dead_with(operation)
        # A read that no tower needs, since formulas replace all that take it, does not run.
        read = origins.overtaken(operation)
        others += [one for one in read if one in copied or runs_once(one, layouts)]
        if others:
            found[operation] = others
    return found


def _hidden(copied: Sequence[Any], origins: Origins) -> dict[Any, list[Any]]:
    """Returns, by operation, the actors to wait for because of formulas; see `Origins.hidden`.

    Operations in a loop cannot wait for those outside, so those that enter the loop do.
    """
    found: dict[Any, list[Any]] = {}
    by_loop: dict[Any, tuple[list[Any], list[Any]]] = {}
    for operation in copied:
        loops = graph_lib.loops_of(operation)
        if not loops:
            found[operation] = origins.hidden(operation)
            continue
        enters, inside = by_loop.setdefault(loops[0], ([], []))
        inside.append(operation)
        if operation.type in graph_lib.ENTER and len(loops) == 1:
            enters.append(operation)
    for enters, inside in by_loop.values():
        found.update(dict.fromkeys(enters, origins.hidden(*inside)))
    return found


def _noticed(
    operation: Any, unnoticed: dict[Any, frozenset[Any]], origins: Origins
) -> Sequence[Any]:
    """Returns the operations that an operation which runs once has to wait for."""
    if operation not in unnoticed:
        return origins.control_inputs(operation)
    there = origins.control_inputs(operation)
    kept = [one for one in there if one not in unnoticed[operation]]
    return list(dict.fromkeys([*kept, *origins.waits(operation)]))


def _unnoticed(
    operations: Sequence[Any], layouts: Layouts, origins: Origins
) -> dict[Any, frozenset[Any]]:
    """Returns control inputs in towers that operations which run once do not need.

    A `NoOp` keeps its control inputs, which are its only purpose, except those that are sizes.
    """
    found = {}
    for operation in operations:
        control_inputs = origins.control_inputs(operation)
        if not control_inputs or not runs_once(operation, layouts):
            continue
        only_waits = operation.type == "NoOp"
        in_towers = {
            one
            for one in control_inputs
            if one in layouts.sizes or (one in layouts.strategies and not only_waits)
        }
        if in_towers:  # Those that make a difference are kept.
            found[operation] = frozenset(in_towers.difference(origins.waits(operation)))
    return found


def _behind(
    gradients: Iterable[Any], needs: Needs, losses: Iterable[Any], unscaling: Collection[Any]
) -> dict[Any, bool]:
    """Returns the joined tensors from which gradients are computed; arguments as `make_plan`."""
    leaves = tf.nest.flatten(list(gradients), expand_composites=True)
    pending = [(leaf, False) for leaf in leaves if isinstance(leaf, tf.Tensor)]
    applied = {graph_lib.reference(leaf) for leaf, _ in pending}
    seen: set[tuple[Any, bool]] = set()
    found: dict[Any, bool] = {}
    computed = []
    while pending:
        tensor, is_scaled = pending.pop()
        key = graph_lib.reference(tensor)
        if (key, is_scaled) in seen:
            continue
        seen.add((key, is_scaled))
        if key in needs.met:  # Tensors before the meeting are in towers.
            found[key] = found.get(key, False) or is_scaled
            if key not in applied:
                computed.append(tensor)
            continue
        is_scaled = is_scaled or tensor.op in unscaling
        pending += [(given, is_scaled) for given in tensor.op.inputs]
    if computed:
        # Gradients that run once take activations of the forward pass, too.
        forward = ancestors(losses, waits=False)
        for tensor in computed:
            if tensor.op in forward:
                found.pop(graph_lib.reference(tensor), None)
    return found


def runs_once(operation: Any, layouts: Layouts) -> bool:
    """Whether the original of an operation runs in a step.

    It does if towers do not run the operation, or if it is a `NoOp` outside of control flow, which
    runs in addition to its copies.
    """
    if operation not in layouts.strategies:
        return True
    return operation.type == "NoOp" and not graph_lib.is_in_control_flow(operation)
