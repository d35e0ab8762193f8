"""Reads the functions of a graph."""

from __future__ import annotations

import functools
import inspect
from typing import Any, NamedTuple, Sequence

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import function_def_to_graph

from replicate.compat.functions import functions_of


class Body(NamedTuple):
    """The body of a function.

    Attributes:
        name: Name of the function.
        arguments: Names of its arguments, as tensors.
        shapes: Static shapes of `arguments`; of unknown rank if they are not known.
        nodes: Its `NodeDef`s, each after all nodes that it takes from or waits for, with the shapes
            of their outputs, if these are known, but without colocations.
        outputs: Names of the tensors that it returns.
        types: Types of `outputs`.
        waits: Names of nodes that run even if no node takes their values.
    """

    name: str
    arguments: tuple[str, ...]
    shapes: tuple[tf.TensorShape, ...]
    nodes: tuple[Any, ...]
    outputs: tuple[str, ...]
    types: tuple[Any, ...]
    waits: tuple[str, ...]


def body_of(graph: Any, name: str) -> Body | None:
    """Returns the body of a function of a graph; None if it is unknown or has type parameters."""
    function = graph._get_function(name) if name in graph._functions else None
    definition = getattr(function, "cached_definition", getattr(function, "definition", None))
    if definition is None or definition.signature.attr:
        return None
    for node in definition.node_def:
        if any(called not in graph._functions for called in functions_of(node)):
            return None
        if any(value.placeholder for value in node.attr.values()):
            return None
    arguments = [argument.name for argument in definition.signature.input_arg]
    with graph.as_default():
        flat, names = _flattened(definition)
    built = getattr(function, "graph", None)
    _set_shapes(flat.node[len(arguments) :], built)
    nodes = _sorted(flat.node[len(arguments) :], arguments)
    if nodes is None:
        return None
    outputs = [names[definition.ret[one.name]] for one in definition.signature.output_arg]
    return Body(
        name,
        tuple(f"{argument}:0" for argument in arguments),
        _shapes(getattr(built, "inputs", ()), len(arguments)),
        nodes,
        tuple(outputs),
        tuple(tf.as_dtype(one.type) for one in definition.signature.output_arg),
        tuple(definition.control_ret[one] for one in definition.signature.control_output),
    )


def _shapes(inputs: Sequence[Any], many: int) -> tuple[tf.TensorShape, ...]:
    """Returns the shapes of so many arguments, by the tensors that stand for them in a graph."""
    if len(inputs) != many:
        return (tf.TensorShape(None),) * many
    return tuple(tensor.shape for tensor in inputs)


def _set_shapes(nodes: Sequence[Any], graph: Any) -> None:
    """Gives nodes the shapes of their outputs in the graph in which a function was built.

    Args:
        nodes: The `NodeDef`s of the function, in the order in which it has them.
        graph: The graph, None if it is not known.
    """
    made = [] if graph is None else graph.get_operations()
    made = [one for one in made if one.type != "Placeholder"]  # These are the arguments.
    # Nodes may have other names than the operations, but their order is the same.
    are_known = [node.op for node in nodes] == [one.type for one in made[: len(nodes)]]
    for index, node in enumerate(nodes):
        node.attr.pop("_class", None)  # Colocations are valid in the function only.
        node.attr.pop("_output_shapes", None)
        if are_known:
            shapes = node.attr["_output_shapes"].list.shape
            shapes.extend(tensor.shape.as_proto() for tensor in made[index].outputs)


def _flattened(definition: Any) -> Any:
    """Returns a function as a `GraphDef`, and the names of its tensors there."""
    convert = function_def_to_graph.function_def_to_graph_def
    if "copy_functions" in inspect.signature(convert).parameters:  # TensorFlow 1.15
        convert = functools.partial(convert, copy_functions=False)
    return convert(definition)


def before(node: Any) -> list[str]:
    """Returns the names of the nodes that a `NodeDef` takes from or waits for."""
    return [name.lstrip("^").split(":")[0] for name in node.input]


def _sorted(nodes: Sequence[Any], arguments: Sequence[str]) -> tuple[Any, ...] | None:
    """Returns nodes in topological order; None if there is none."""
    there, found = set(arguments), []
    pending = list(nodes)
    while pending:
        later = []
        for node in pending:
            if there.issuperset(before(node)):
                there.add(node.name)
                found.append(node)
            else:
                later.append(node)
        if len(later) == len(pending):
            return None
        pending = later
    return tuple(found)


def types_of(graph: Any, node: Any) -> list[Any]:
    """Returns the types of the outputs of a `NodeDef`."""
    definition = _definition(graph, node.op)

    def attribute(name: str) -> Any:
        if name in node.attr:
            return node.attr[name]
        return next(one.default_value for one in definition.attr if one.name == name)

    types: list[int] = []
    for output in definition.output_arg:
        if output.type_list_attr:
            types += attribute(output.type_list_attr).list.type
        else:
            dtype = output.type or attribute(output.type_attr).type
            types += [dtype] * (attribute(output.number_attr).i if output.number_attr else 1)
    return [tf.as_dtype(one) for one in types]


def is_function(graph: Any, kind: str) -> bool:
    """Whether a type of operations is a function of the graph."""
    return kind in graph._functions


def is_stateful(graph: Any, node: Any) -> bool:
    """Whether operations of a node's type have or change state."""
    return bool(_definition(graph, node.op).is_stateful)


def makes_resources(graph: Any, node: Any) -> bool:
    """Whether a node makes a resource, which outlives a step and has a name."""
    definition = _definition(graph, node.op)
    named = {attribute.name for attribute in definition.attr} & {"shared_name", "container"}
    return bool(named) or node.op in ("AnonymousIterator", "AnonymousIteratorV2", "Placeholder")


def _definition(graph: Any, kind: str) -> Any:
    find = getattr(graph, "op_def_for_type", None) or graph._get_op_def
    return find(kind)
