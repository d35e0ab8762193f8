"""Replicas of variables on the towers' devices, so that no weights are sent between them.

Updates of a variable are copied for its replicas, on their devices and with the same gradients. So
all compute the same numbers, and stay equal. An update waits for its copies, so they run whenever
it does. The first tower has the variables themselves, which are in checkpoints; replicas get their
values at the start of each session.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types, partitioning
from replicate.graphs import OF_SESSION, ancestors, followers
from replicate.partition import effects, weights
from replicate.partition.meetings import Pack
from replicate.partition.placement import Instead, Placement
from replicate.partition.plan import Plan
from replicate.reduction import packing


class Replicas(NamedTuple):
    """The replicas of variables.

    Attributes:
        updates: Operations that change variables with replicas, in order.
        instead: Tensors that towers take in place of a variable's handle or value.
        handles: By reference of a variable's handle: the handles of the N towers.
    """

    updates: tuple[Any, ...]
    instead: Instead
    handles: Instead


def make(plan: Plan, placement: Placement) -> Replicas:
    """Makes replicas of trainable variables, and of those that are updated together with them.

    A variable gets replicas if it is a resource variable on the first tower's device, and all of
    its updates can be copied: none is in a loop, condition or function.

    Args:
        plan: The `Plan`.
        placement: The `Placement`.
    """
    by_handle = {
        graph_lib.reference(variable.handle): variable
        for variable in tf.global_variables()
        if hasattr(variable, "handle") and _is_on(variable.handle.op, placement.devices[0])
    }
    # Only operations of the model count as updates, not those of a saver that is made later.
    there = set(plan.operations)
    chosen = _closed(by_handle, there)
    handles: Instead = {}
    for key in chosen:
        variable = by_handle[key]
        made = [_replica(variable, index, device) for index, device in enumerate(placement.devices)]
        handles[key] = tuple(made)
    updates = partitioning.add_nodes_in_order(
        {update for key in chosen for update in updates_of(by_handle[key], there)}
    )
    return Replicas(tuple(updates), {**handles, **_values(plan, handles)}, handles)


def follow(replicas: Replicas, placement: Placement, packs: Sequence[Pack]) -> None:
    """Copies the updates of variables for their replicas, after the graph has been partitioned.

    Args:
        replicas: The `Replicas`.
        placement: The `Placement`.
        packs: The packs in which gradients were summed.
    """
    graph, read_before = tf.get_default_graph(), _read_before(replicas)
    copies: dict[Any, list[Any]] = {update: [] for update in replicas.updates}
    taken = {graph_lib.reference(t): t for update in replicas.updates for t in update.inputs}
    # Inputs of an initializer are not packed: other variables may have no value when it runs.
    variables = [*tf.global_variables(), *tf.local_variables()]
    given = [getattr(variable.initializer, "inputs", ()) for variable in variables]
    early = {graph_lib.reference(tensor) for inputs in given for tensor in inputs}
    reads = [t for key, t in taken.items() if key not in early and weights.can_be_packed(t.op)]
    read = weights.send(reads, {}, placement)
    first, *others = placement.devices
    for index, device in enumerate(others if copies else (), 1):
        sent = _sent_in_packs(taken, packs, device)
        nodes: list[Any] = []
        inputs: dict[str, Any] = {}
        names: dict[Any, str] = {}
        sent.update((key, by_tower[index]) for key, by_tower in read.items())
        for update in replicas.updates:
            node = partitioning.unplaced(update.node_def)
            for tensor in update.inputs:
                key = graph_lib.reference(tensor)
                if key not in names:
                    names[key] = name = f"{partitioning.RESERVED}given_{len(names)}"
                    handles = replicas.handles.get(key)
                    # Constants are sent, too, not copied: `Variable.load` feeds the initializer's.
                    inputs[name] = sent.get(key, tensor) if handles is None else handles[index]
                node.input.append(names[key])
            nodes.append(node)
        scope, _ = partitioning.import_nodes(
            graph, nodes, inputs, f"replicate/tower_{index}/update", device, []
        )
        for update in replicas.updates:
            # A copy waits for the same operations as the update, which waits for the copy below.
            copied = graph.get_operation_by_name(f"{scope}/{update.name}")
            reads = [values[index].op for values in read_before.get(update, ())]
            graph_lib.add_control_inputs(copied, [*update.control_inputs, *reads])
            copies[update].append(copied)
    # The first tower's updates may also take packs from another device, where these were summed.
    sent = _sent_in_packs(taken, packs, first)
    for update, made in copies.items():
        for position, tensor in enumerate(update.inputs):
            if graph_lib.reference(tensor) in sent:
                partitioning.take(update, position, sent[graph_lib.reference(tensor)])
        graph_lib.add_control_inputs(update, made)


def _read_before(replicas: Replicas) -> dict[Any, list[Any]]:
    """Returns, by update, the values of its variables in towers that are read before it.

    On one device, an update may follow a read only because its value is made of that, or because it
    waits for the read. Towers read their replicas by operations of their own.
    """
    by_handle: dict[Any, list[Any]] = {}
    for by_tower in replicas.instead.values():
        if by_tower[0].op.type == "ReadVariableOp":
            key = graph_lib.reference(by_tower[0].op.inputs[0])
            by_handle.setdefault(key, []).append(by_tower)
    known: dict[Any, list[Any]] = {}
    ancestors(replicas.updates, known=known)
    reads = [by_tower[0].op for found in by_handle.values() for by_tower in found]
    following = followers(reads, known)
    # A variable may be made of the value of another one, but has none itself before that.
    first = {variable.initializer for variable in tf.global_variables()}
    return {
        update: [one for t in update.inputs for one in by_handle.get(graph_lib.reference(t), ())]
        for update in following.difference(first).intersection(replicas.updates)
    }


def _sent_in_packs(taken: dict[Any, Any], packs: Sequence[Pack], device: str) -> dict[Any, Any]:
    """Returns, on a device, tensors of packs that updates take completely.

    These packs are sent to the device as one tensor. New packs could make a cycle: one tensor in
    it may depend on an update that takes another one.
    """
    packing_of = packing.Packing()
    names: dict[Any, str] = {}
    for whole, parts in packs:
        keys = [graph_lib.reference(part) for part in parts]
        if not all(key in taken for key in keys) or graph_lib.same_device(whole.device, device):
            continue
        shapes = [part.shape for part in parts]
        names.update(zip(keys, packing_of.part(whole, whole.dtype, shapes, device)))
    return dict(zip(names, packing_of.make("replicate/", names.values())))


def _is_on(operation: Any, device: str) -> bool:
    return not operation.device or graph_lib.same_device(operation.device, device)


def updates_of(variable: Any, there: set[Any]) -> list[Any]:
    """Returns the operations that change a variable, including its initializer, for `load`."""
    return [
        taker
        for taker in variable.handle.consumers()
        if taker.type not in effects.READS and taker in there
    ]


def _closed(by_handle: dict[Any, Any], there: set[Any]) -> list[Any]:
    """Returns the handles of trainable variables, and of those that are updated with them.

    If one variable cannot have replicas, neither can those that are updated with it.
    """
    trained = {
        graph_lib.reference(v.handle) for v in tf.trainable_variables() if hasattr(v, "handle")
    }
    found: dict[Any, None] = {}
    for start in by_handle:
        if start not in trained or start in found:
            continue
        group: set[Any] = set()
        pending = [start]
        possible = True
        while pending and possible:
            key = pending.pop()
            if key in group:
                continue
            # An optimizer's slots, for example, change with their variable.
            group.add(key)
            possible = key in by_handle
            for update in updates_of(by_handle[key], there) if possible else ():
                possible = possible and can_be_copied(update)
                pending += [graph_lib.reference(t) for t in update.inputs if t.dtype == tf.resource]
        if possible:
            found.update(dict.fromkeys(group))
    return list(found)


def can_be_copied(update: Any) -> bool:
    """Whether a copy of an update does the same: functions may draw other random numbers."""
    return not graph_lib.is_in_control_flow(update) and not op_types.calls_functions(update)


def _replica(variable: Any, index: int, device: str) -> Any:
    """Returns the handle of a tower's replica of a variable."""
    if not index:
        return variable.handle
    # The initial value is not given as a function, whose operations TensorFlow would colocate with
    # the replica, whatever their device.
    with tf.init_scope(), tf.device(device), tf.name_scope(None):
        made = tf.Variable(
            _value(variable),
            trainable=False,
            collections=[tf.GraphKeys.LOCAL_VARIABLES, OF_SESSION],
            use_resource=True,
            dtype=variable.dtype,
            name=f"replicate/tower_{index}/{variable.op.name}",
        )
    return made.handle


def _value(variable: Any) -> Any:
    with tf.device(variable.device), tf.control_dependencies(None), tf.name_scope("replicate/"):
        return tf.identity(variable.read_value())


def _values(plan: Plan, handles: Instead) -> Instead:
    """Returns tensors that towers take in place of reads of variables without control inputs."""
    made: Instead = {}
    for operation in plan.copied:
        for tensor in operation.inputs:
            key, read = graph_lib.reference(tensor), tensor.op
            if read.type != "ReadVariableOp" or read.control_inputs or key in made:
                continue
            by_tower: Sequence[Any] = handles.get(graph_lib.reference(read.inputs[0]), ())
            if by_tower:
                made[key] = (tensor, *(_read(handle, tensor) for handle in by_tower[1:]))
    return made


def _read(handle: Any, like: Any) -> Any:
    with tf.control_dependencies(None), tf.device(handle.op.device), tf.name_scope("replicate/"):
        value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=like.dtype)
    value.set_shape(like.shape)
    return value
