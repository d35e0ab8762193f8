"""The towers' copies of what they run."""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning, py_functions
from replicate.compat.functions import Bodies, change_seed, function_bodies
from replicate.layouts import OWN, WHOLE, Indices, Shard
from replicate.partition import aliases, frames, rounds
from replicate.partition.inputs import Given, Inputs, Own
from replicate.partition.placement import Placement
from replicate.partition.plan import Plan


class Copies(NamedTuple):
    """The copies.

    Attributes:
        scopes: The name scopes of the towers, None of one that runs the operations themselves.
        own: What towers have of the tensors that are needed outside of their copies.
    """

    scopes: tuple[str | None, ...]
    own: Own

    def of(self, operation: Any) -> list[Any]:
        """Returns the towers' copies of an operation."""
        get = operation.graph.get_operation_by_name
        return [
            operation if scope is None else get(f"{scope}/{operation.name}")
            for scope in self.scopes
        ]


def copy(plan: Plan, inputs: Inputs, placement: Placement, first: int = 0) -> Copies:
    """Copies what towers run.

    Args:
        plan: The `Plan`.
        inputs: The `Inputs`.
        placement: The `Placement`.
        first: The first tower that has copies. Those before it run the operations themselves.
    """
    graph = tf.get_default_graph()
    copied = set(plan.copied)
    behind = aliases.find(plan)
    needed = [one for one in plan.copied if not one.outputs or behind(one.outputs[0]).op is one]
    templates = [(one, _template(one, plan.waits.get(one, ()), copied)) for one in needed]
    shared = rounds.shared_frames(plan.copied, plan.layouts)
    towers = [
        _define(templates, plan, inputs, placement, behind, index, shared)
        for index in range(first, len(placement.devices))
    ]
    wanted = _wanted(plan)
    names = [behind(tensor).name for tensor in wanted]
    scopes: list[str | None] = [None] * first
    made: list[Any] = [wanted] * first
    functions = functools.lru_cache(maxsize=None)(lambda: function_bodies(graph))
    for index, (nodes, given) in enumerate(towers, first):
        here = placement.devices[index]
        firsts = dict.fromkeys((placement.consolidation, placement.devices[0]), here)
        bodies = Bodies(functions, f"_tower_{index}", firsts, seed=index)
        tokens = py_functions.Tokens(graph)
        for node in nodes:
            bodies.change(node)
            if index:  # The first tower has the function itself.
                tokens.change(node)
        scope, own = partitioning.import_nodes(
            graph, nodes, given, f"tower_{index}", here, names, bodies.added
        )
        scopes.append(scope)
        made.append(own)
    by_reference = {graph_lib.reference(tensor): tuple(own) for tensor, *own in zip(wanted, *made)}
    copies = Copies(tuple(scopes), by_reference)
    rounds.put_together(plan.copied, plan.layouts, copies.of, placement.devices)
    for operation in needed:
        others = [before for before in plan.waits.get(operation, ()) if before not in copied]
        for one in copies.of(operation) if others else ():
            graph_lib.add_control_inputs(one, others)
    return copies


def _wanted(plan: Plan) -> list[Any]:
    """Returns the tensors that are needed outside of the towers' copies."""
    wanted = {graph_lib.reference(tensor): tensor for tensor in (*plan.met, *plan.apart)}
    copied = set(plan.copied)
    for measure in plan.layouts.facts.symbols.values():
        if measure.tensor.op in copied:
            wanted[graph_lib.reference(measure.tensor)] = measure.tensor
    return list(wanted.values())


def _template(operation: Any, waits: Sequence[Any], copied: Any) -> Any:
    """Returns the `NodeDef` that is the same in all towers."""
    node = operation.node_def
    node.attr.pop("_class", None)
    del node.input[len(operation.inputs) :]
    node.input.extend(f"^{one.name}" for one in waits if one in copied)
    return node


def _define(
    templates: Sequence[tuple[Any, Any]],
    plan: Plan,
    inputs: Inputs,
    placement: Placement,
    behind: Callable[[Any], Any],
    tower: int,
    shared: frozenset[str],
) -> tuple[list[Any], dict[str, Any]]:
    """Returns the `NodeDef`s of a tower, and what they take of the graph, by name."""
    made = _Nodes(shared)
    copied = set(plan.copied)
    for operation, template in templates:
        node = tf.NodeDef()
        node.CopyFrom(template)
        change_seed(node, tower)
        place = str(operation.device)
        for index, (tensor, demand) in enumerate(
            zip(operation.inputs, plan.layouts.strategies[operation].inputs)
        ):
            resource = _entered(tensor) if tensor.dtype == tf.resource else None
            if resource is not None and resource.op not in copied:
                held: Any = inputs.of_tower(resource, demand, tower)
                place = str(held.op.device)  # The copy has to be where the resource is.
            layout = plan.layouts.of(tensor)
            if tensor.op in copied and (
                layout == demand or rounds.meets(tensor, operation, plan.layouts)
            ):
                node.input[index] = behind(tensor).name
                continue
            if tensor.op in copied and isinstance(layout, Indices) and isinstance(demand, Shard):
                offset = made.name_of(inputs.offset(tensor, tower), (), tower)
                node.input[index] = made.sum_of(behind(tensor), offset)
                continue
            given: Any = inputs.of_tower(tensor, demand, tower)
            node.input[index] = made.name_of(given, frames.around(operation), tower)
        layouts = [plan.layouts.of(tensor) for tensor in operation.outputs]
        if operation.type == "Const" and layouts[0] not in (WHOLE, OWN):
            # In a loop: each tower has its part.
            part = inputs.of_tower(operation.outputs[0], layouts[0], tower)
            frames.pass_on(node, made.name_of(part, frames.around(operation), tower))
        frames.change(node, tower, made.shared)
        node.device = "" if placement.is_first(place) else place
        made.nodes.append(node)
    return made.nodes, made.inputs


def _dtype(given: Given) -> Any:
    return tf.as_dtype(given.attr["dtype"].type if isinstance(given, tf.NodeDef) else given.dtype)


def _entered(tensor: Any) -> Any:
    """Returns what is outside of loops of a resource that enters them."""
    while graph_lib.in_while_loop(tensor.op):
        tensor = tensor.op.inputs[0]
    return tensor


class _Nodes:
    """The `NodeDef`s of a tower, while they are made, and the names of what they take."""

    def __init__(self, shared: frozenset[str]) -> None:
        self.shared = shared  # Frames that all towers have together.
        self.nodes: list[Any] = []
        self.inputs: dict[str, Any] = {}
        self._names: dict[Any, str] = {}

    def name_of(self, given: Given, loops: Sequence[Any], tower: int) -> str:
        """Returns the name by which a node finds what it takes, within loops maybe."""
        name = self._name_outside(given)
        for depth, loop in enumerate(loops):
            key = name, *loops[: depth + 1]
            if key not in self._names:
                self._names[key] = f"{partitioning.RESERVED}given_{len(self._names)}"
                node = frames.enter(self._names[key], name, _dtype(given), loop, tower, self.shared)
                self.nodes.append(node)
            name = self._names[key]
        return name

    def sum_of(self, tensor: Any, other: str) -> str:
        """Returns the name of the sum of what a tower has and of something else."""
        key = "sum", tensor.name, other
        if key not in self._names:
            self._names[key] = f"{partitioning.RESERVED}given_{len(self._names)}"
            node = tf.NodeDef(name=self._names[key], op="AddV2", input=[tensor.name, other])
            node.attr["T"].type = tensor.dtype.as_datatype_enum
            self.nodes.append(node)
        return self._names[key]

    def _name_outside(self, given: Given) -> str:
        if isinstance(given, np.ndarray):
            key: Any = (given.tobytes(), given.shape, given.dtype.str)
        elif isinstance(given, tf.NodeDef):  # Graphs hold many constants of one value.
            key = given.attr["value"].SerializeToString()
        else:
            key = given.name
        if key not in self._names:
            self._names[key] = f"{partitioning.RESERVED}given_{len(self._names)}"
            self._add(self._names[key], given)
        return self._names[key]

    def _add(self, name: str, given: Given) -> None:
        if not isinstance(given, (np.ndarray, tf.NodeDef)):
            self.inputs[name] = given
            return
        node = tf.NodeDef()
        if isinstance(given, tf.NodeDef):
            node = partitioning.unplaced(given)
        else:
            node.op = "Const"
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(given))
            node.attr["dtype"].type = tf.as_dtype(given.dtype).as_datatype_enum
        node.name = name
        self.nodes.append(node)
