"""Decides which operations are copied for towers, and which of their tensors are put together."""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.layouts import SIZE, Layouts
from replicate.partition import named
from replicate.partition.needs import Needs
from replicate.partition.origins import Origins, is_size


class Plan(NamedTuple):
    """The changes that let a graph run in towers.

    Attributes:
        layouts: The `Layouts` of its tensors.
        operations: All of its operations, in order.
        copied: Those that towers run, in order.
        met: Tensors that something takes whole and towers have shards or parts of, in order.
        apart: Tensors that something takes of each tower by itself.
        together: By reference of each tensor that is put together: what others that cross devices
            with it have too.
        gradients: References of those tensors that are put together for what optimizers apply.
        waits: By operation that towers run: what its copies wait for.
        extra_waits: By operation that runs once: what else it waits for, because a formula replaced
            a size that waited for it.
        unnoticed: By operation that runs once: what it need not wait for, see `Origins.waits`.
        behind_sizes: By reference of a tensor that is asked for and whose formula takes its place:
            what acts before it, and has to be waited for.
    """

    layouts: Layouts
    operations: tuple[Any, ...]
    copied: tuple[Any, ...]
    met: tuple[Any, ...]
    apart: tuple[Any, ...]
    together: dict[Any, Any]
    gradients: frozenset[Any]
    waits: dict[Any, list[Any]]
    extra_waits: dict[Any, list[Any]]
    unnoticed: dict[Any, frozenset[Any]]
    behind_sizes: dict[Any, list[Any]]


def make_plan(
    operations: Sequence[Any],
    layouts: Layouts,
    asked: Iterable[Any],
    gradients: Iterable[Any] = (),
    apart: Iterable[Any] = (),
) -> Plan:
    """Returns the `Plan` of a graph.

    Args:
        operations: Its operations, each after all that leads to it.
        layouts: Their `Layouts`.
        asked: Tensors that are needed whole besides those that operations take.
        gradients: What optimizers apply: tensors, `tf.IndexedSlices`, or None.
        apart: Tensors that something takes of each tower by itself.
    """
    origins = Origins(operations, layouts)
    needs = Needs(layouts, origins)
    unnoticed = _unnoticed(operations, layouts, origins)
    for operation in operations:
        if runs_once(operation, layouts) and not is_size(operation, layouts):
            for tensor in operation.inputs:
                needs.whole(tensor)
            dead = origins.dead_with(operation)
            for before in [*_noticed(operation, unnoticed, origins), *dead]:
                if not runs_once(before, layouts):
                    needs.copy(before)
    asked = list(asked)
    for tensor in asked:
        needs.whole(tensor)
    apart = tuple(tensor for tensor in apart if tensor.op in layouts.strategies)
    for tensor in apart:
        needs.copy(tensor.op)
    needs.follow()
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
    together = {graph_lib.reference(tensor): origins.together(tensor) for tensor in met}
    waits, extra_waits = {}, {}
    for operation in operations:
        if operation in needs.copied:
            waits[operation] = origins.waits(operation) + origins.dead_with(operation)
            waits[operation] += hidden.get(operation, [])
        if runs_once(operation, layouts):
            # Those that it waits for already are replaced by their copies.
            now = set(origins.control_inputs(operation))
            kept = _noticed(operation, unnoticed, origins)
            others = [before for before in kept if before not in now]
            others += origins.hidden(operation) + origins.dead_with(operation)
            if others:
                extra_waits[operation] = others
    applied = _behind(gradients, needs)
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
        waits=waits,
        extra_waits=extra_waits,
        unnoticed=unnoticed,
        behind_sizes=behind,
    )


def _hidden(copied: Sequence[Any], origins: Origins) -> dict[Any, list[Any]]:
    """Returns, by operation, what acts behind sizes, see `Origins.hidden`, and is waited for.

    Nothing in a loop waits for what is outside; what enters the loop does.
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
    """Returns what an operation that runs once waits for."""
    if operation not in unnoticed:
        return origins.control_inputs(operation)
    there = origins.control_inputs(operation)
    kept = [one for one in there if one not in unnoticed[operation]]
    return list(dict.fromkeys([*kept, *origins.waits(operation)]))


def _unnoticed(
    operations: Sequence[Any], layouts: Layouts, origins: Origins
) -> dict[Any, frozenset[Any]]:
    """Returns what operations that run once would wait for of all towers, and need not.

    A `NoOp` keeps its waits, since they are all that it does, but for those for sizes.
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
            if is_size(one, layouts) or (one in layouts.strategies and not only_waits)
        }
        if in_towers:
            found[operation] = frozenset(in_towers.difference(origins.waits(operation)))
    return found


def _behind(gradients: Iterable[Any], needs: Needs) -> frozenset[Any]:
    """Returns references of the tensors whose parts are put together to make gradients."""
    leaves = tf.nest.flatten(list(gradients), expand_composites=True)
    pending = [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]
    seen, found = {graph_lib.reference(tensor) for tensor in pending}, set()
    while pending:
        tensor = pending.pop()
        key = graph_lib.reference(tensor)
        if key in needs.met:
            found.add(key)
            continue
        for given in tensor.op.inputs:
            if graph_lib.reference(given) not in seen:
                seen.add(graph_lib.reference(given))
                pending.append(given)
    return frozenset(found)


def runs_once(operation: Any, layouts: Layouts) -> bool:
    """Whether an operation itself runs once; one that only waits does so besides its copies."""
    if operation not in layouts.strategies:
        return True
    return operation.type == "NoOp" and not graph_lib.is_in_control_flow(operation)
