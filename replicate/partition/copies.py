"""Copies operations for the towers."""

from __future__ import annotations

import functools
from typing import Any, Callable, Container, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import op_types, partitioning, py_functions
from replicate.compat.functions import Bodies, change_seed, function_bodies
from replicate.layouts import PASS_ON, PER_TOWER, WHOLE, Own, Partial, Shard, Share, adds_offset
from replicate.partition import aliases, frames, rereads, rounds
from replicate.partition.constants import Constants, is_made_outside
from replicate.partition.inputs import Given, Inputs, TowerTensors
from replicate.partition.nodes import Nodes
from replicate.partition.placement import Placement
from replicate.partition.plan import Plan


class Copies(NamedTuple):
    """The towers' copies of operations.

    Attributes:
        scopes: The name scopes of the towers, None for a tower that runs the original operations.
        by_tower: By reference of a tensor that is needed outside of the copies: the N towers'.
    """

    scopes: tuple[str | None, ...]
    by_tower: TowerTensors

    def copies_of(self, operation: Any) -> list[Any]:
        """Returns the towers' copies of an operation."""
        get = operation.graph.get_operation_by_name
        return [
            operation if scope is None else get(f"{scope}/{operation.name}")
            for scope in self.scopes
        ]


class _Given(NamedTuple):
    """An input of a copy that is not simply an output of another copy.

    Attributes:
        place: The index of the input.
        tensor: The tensor of one device.
        demand: The layout that is demanded.
        is_copied: Whether it is an output of a copy, to which the tower's offsets are added.
        known: The constant that all towers take, if it is one.
    """

    place: int
    tensor: Any
    demand: Any
    is_copied: bool
    known: Given | None


class _Template(NamedTuple):
    """The properties of an operation's copies that are the same for all towers.

    Attributes:
        node: The `NodeDef`, with the names of inputs that are outputs of other copies. If it names
            no device, a copy is placed on the tower's.
        given: All other inputs.
        resources: Resources that it takes, each with its demand. A copy is placed on the device of
            the resource.
        loops: The loops in which it takes its inputs.
        part: The layout of a constant or range in a loop, if it is split or partial; else None.
        has_seed: Whether it draws random numbers, which differ among towers.
        is_framed: Whether `frames.change` has to change it.
        is_same: Whether the `NodeDef` is that of all copies. Most are, for example of activations.
    """

    node: Any
    given: Sequence[_Given]
    resources: Sequence[tuple[Any, Any]]
    loops: Sequence[Any]
    part: Any
    has_seed: bool
    is_framed: bool
    is_same: bool


def copy(
    plan: Plan, inputs: Inputs, constants: Constants, placement: Placement, first: int = 0
) -> Copies:
    """Copies the operations that towers run.

    Args:
        plan: The `Plan`.
        inputs: The `Inputs`.
        constants: The `Constants`.
        placement: The `Placement`.
        first: The first tower that has copies. Those before it run the original operations.
    """
    graph = tf.get_default_graph()
    copied = set(plan.copied)
    behind = aliases.find(plan)
    # An alias needs no copy: consumers take the tensor that it would pass on.
    needed = [one for one in plan.copied if not one.outputs or behind(one.outputs[0]).op is one]
    read = rereads.reader(plan.rereads)
    templates = [
        (one, _template(one, plan, copied, behind, read, constants, placement)) for one in needed
    ]
    shared = rounds.shared_frames(plan.copied, plan.layouts)
    towers = [
        _define(templates, inputs, placement, index, shared)
        for index in range(first, len(placement.devices))
    ]
    wanted = _wanted(plan)
    names = [behind(tensor).name for tensor in wanted]
    scopes: list[str | None] = [None] * first
    made: list[Any] = [wanted] * first
    # To read all functions is slow, and few graphs need it.
    functions = functools.lru_cache(maxsize=None)(lambda: function_bodies(graph))
    calls = {one.type for one in needed if op_types.calls_functions(one)}
    for index, tower in enumerate(towers, first):
        here = placement.devices[index]
        # Operations in functions that are placed on the model's device move to the tower's.
        firsts = dict.fromkeys((placement.consolidation, placement.devices[0]), here)
        bodies = Bodies(functions, f"_tower_{index}", firsts, seed=index)
        tokens = py_functions.Tokens(graph)
        for node in tower.nodes:
            if node.op in calls:
                bodies.change(node)
            if index:  # The first tower calls the original Python function.
                tokens.change(node)
        scope, values = partitioning.import_nodes(
            graph, tower.nodes, tower.inputs, f"tower_{index}", here, names, bodies.added
        )
        scopes.append(scope)
        made.append(values)
    # From a list of tensors for each tower to a tuple of N for each tensor.
    by_tower = {
        graph_lib.reference(tensor): tuple(values) for tensor, *values in zip(wanted, *made)
    }
    copies = Copies(tuple(scopes), by_tower)
    frames.refuse_gradients(needed, copies.copies_of)
    if shared:
        rounds.insert_reductions(
            plan.copied, plan.layouts, shared, copies.copies_of, placement.devices
        )
    # Waits for other copies are part of the nodes; those for operations that run once are not.
    waits = [
        (one, [before for before in plan.waits.get(one, ()) if before not in copied])
        for one in needed
    ]
    _wait_for_all(waits, copies, placement)
    return copies


def _wait_for_all(
    waits: Sequence[tuple[Any, Sequence[Any]]], copies: Copies, placement: Placement
) -> None:
    """Lets copies wait for operations that run once.

    A gradient may wait for the update of every batch norm. Each wait across devices costs time, so
    one operation waits for all of them, and copies for this one.
    """
    groups: dict[tuple[Any, ...], Any] = {}
    for operation, others in waits:
        if len(others) > 1 and not any(map(graph_lib.is_in_control_flow, others)):
            key = tuple(others)
            if key not in groups:
                with tf.device(placement.consolidation), tf.control_dependencies(None):
                    groups[key] = tf.no_op("waits")
                graph_lib.add_control_inputs(groups[key], others)
            others = [groups[key]]
        for one in copies.copies_of(operation) if others else ():
            graph_lib.add_control_inputs(one, others)


def _wanted(plan: Plan) -> list[Any]:
    """Returns the tensors that are needed outside of the towers' copies."""
    wanted = {graph_lib.reference(tensor): tensor for tensor in (*plan.met, *plan.apart)}
    copied = set(plan.copied)
    # Formulas measure the sizes of the towers' tensors.
    for measure in plan.layouts.facts.symbols.values():
        if measure.tensor.op in copied:
            wanted[graph_lib.reference(measure.tensor)] = measure.tensor
    return list(wanted.values())


def _template(
    operation: Any,
    plan: Plan,
    copied: Container[Any],
    behind: Callable[[Any], Any],
    read: Callable[[Any, int, Any], Any],
    constants: Constants,
    placement: Placement,
) -> _Template:
    node = operation.node_def
    partitioning.set_apart(node)
    del node.input[len(operation.inputs) :]  # Control inputs, of which the plan keeps some.
    node.input.extend(f"^{one.name}" for one in plan.waits.get(operation, ()) if one in copied)
    given, resources = [], []
    part = _part(operation, plan)
    inputs = () if part is not None else operation.inputs
    for index, (tensor, demand) in enumerate(
        zip(inputs, plan.layouts.strategies[operation].inputs)
    ):
        resource = _entered(tensor) if tensor.dtype == tf.resource else None
        if resource is not None and resource.op not in copied:
            resources.append((resource, demand))
        layout, is_copied = plan.layouts.layout_of(tensor), tensor.op in copied
        if is_copied and (layout == demand or rounds.meets(tensor, operation, plan.layouts)):
            node.input[index] = behind(tensor).name
            continue
        # Indices are converted by offsets of the tower; no meeting is needed.
        points = is_copied and adds_offset(layout, demand)
        taken = behind(tensor) if points else read(operation, index, tensor)
        differs = points or isinstance(demand, (Own, Partial, Shard, Share))
        known = None if differs else constants.known(taken)
        given.append(_Given(index, taken, demand, points, known))
    has_seed, is_framed = "seed2" in node.attr, frames.concerns(node)
    # Each tower's call is changed before it is imported.
    calls = op_types.calls_functions(operation) or py_functions.is_kept_by_token(node)
    node.device = placement.place_of_copies(operation.device)
    return _Template(
        node=node,
        given=given,
        resources=resources,
        loops=frames.around(operation),
        part=part,
        has_seed=has_seed,
        is_framed=is_framed,
        is_same=not (given or resources or part or has_seed or is_framed or calls),
    )


def _part(operation: Any, plan: Plan) -> Any:
    """Returns the layout of a constant or range in a loop, if it is split or partial; else None."""
    is_outside = is_made_outside(operation)
    layout = plan.layouts.layout_of(operation.outputs[0]) if is_outside else WHOLE
    return None if layout in (WHOLE, PER_TOWER) else layout


def _define(
    templates: Sequence[tuple[Any, _Template]],
    inputs: Inputs,
    placement: Placement,
    tower: int,
    shared: frozenset[str],
) -> Nodes:
    """Returns the `NodeDef`s of a tower."""
    made = Nodes(shared)
    for operation, template in templates:
        if template.is_same:
            made.nodes.append(template.node)
            continue
        node = tf.NodeDef()
        node.CopyFrom(template.node)
        if template.has_seed:
            change_seed(node, tower)
        # A tower's replica of a variable is on another device than the variable.
        for resource, demand in template.resources:
            held: Any = inputs.of_tower(resource, demand, tower)
            node.device = placement.place_of_copies(held.op.device)
        for index, tensor, demand, is_copied, known in template.given:
            if is_copied:
                node.input[index] = tensor.name
                for offset in inputs.offsets(tensor, demand, tower):
                    added = made.name_of(offset, (), tower)
                    node.input[index] = made.sum_of(node.input[index], tensor.dtype, added)
                continue
            given: Any = inputs.of_tower(tensor, demand, tower) if known is None else known
            node.input[index] = made.name_of(given, template.loops, tower)
        if template.part is not None:  # A constant in a loop: a tower's part is made outside.
            part = inputs.of_tower(operation.outputs[0], template.part, tower)
            frames.pass_on(node, made.name_of(part, template.loops, tower))
        if template.is_framed:
            frames.change(node, tower, made.shared)
        made.nodes.append(node)
    return made


def _entered(tensor: Any) -> Any:
    """Returns a resource outside of the loops that it has entered, if it was not made in one."""
    while graph_lib.in_while_loop(tensor.op) and tensor.op.type in PASS_ON:
        tensor = tensor.op.inputs[0]
    return tensor
