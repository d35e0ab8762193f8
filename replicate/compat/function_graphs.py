"""Reads the functions of a graph, and makes their operations and control flow in the graph."""

from __future__ import annotations

import contextlib
import functools
import inspect
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import function_def_to_graph

from replicate.compat import graph as graph_lib
from replicate.compat.functions import functions_of


class Body(NamedTuple):
    """The body of a function.

    Attributes:
        name: Name of the function.
        arguments: Names of its arguments, as tensors.
        nodes: Its `NodeDef`s, each after all nodes that it takes from or waits for.
        outputs: Names of the tensors that it returns.
        types: Types of `outputs`.
        waits: Names of nodes that run even if no node takes their values.
        shapes: Known shapes of tensors, by name.
    """

    name: str
    arguments: tuple[str, ...]
    nodes: tuple[Any, ...]
    outputs: tuple[str, ...]
    types: tuple[Any, ...]
    waits: tuple[str, ...]
    shapes: Mapping[str, Any]


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
    nodes = _sorted(flat.node[len(arguments) :], arguments)
    if nodes is None:
        return None
    outputs = [names[definition.ret[one.name]] for one in definition.signature.output_arg]
    return Body(
        name,
        tuple(f"{argument}:0" for argument in arguments),
        nodes,
        tuple(outputs),
        tuple(tf.as_dtype(one.type) for one in definition.signature.output_arg),
        tuple(definition.control_ret[one] for one in definition.signature.control_output),
        _shapes(getattr(function, "graph", None)),
    )


def _shapes(graph: Any) -> dict[str, Any]:
    """Returns shapes of tensors, by name, from the graph in which a function was built."""
    if graph is None:
        return {}
    tensors = [tensor for operation in graph.get_operations() for tensor in operation.outputs]
    return {tensor.name: tensor.shape for tensor in tensors if tensor.shape.rank is not None}


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


def make(
    graph: Any, node: Any, inputs: Sequence[Any], waits: Sequence[Any], device: str, name: str
) -> Any:
    """Makes the operation of a `NodeDef` of a function, in the open scopes.

    Args:
        graph: The graph.
        node: The `NodeDef`.
        inputs: The tensors that the operation takes.
        waits: The operations that it waits for.
        device: Device string of the operation.
        name: Name of the operation.
    """
    attrs = {key: value for key, value in node.attr.items() if key not in _IN_FUNCTIONS}
    types = [tensor.dtype for tensor in inputs]
    with tf.control_dependencies(list(waits)):
        made = graph.create_op(
            node.op, list(inputs), None, input_types=types, name=name, attrs=attrs
        )
    made._set_device(device)
    return made


# Attributes of nodes that are valid in the function only: colocations and shapes.
_IN_FUNCTIONS = frozenset(["_class", "_output_shapes"])


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


@contextlib.contextmanager
def old_control_flow() -> Iterator[None]:
    """A scope with TensorFlow 1's control flow."""
    is_new = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    try:
        yield
    finally:
        if is_new:
            tf.enable_control_flow_v2()


_CONTEXTS = (tf.GraphKeys.COND_CONTEXT, tf.GraphKeys.WHILE_CONTEXT)


@contextlib.contextmanager
def made_on(graph: Any, device: str) -> Iterator[list[Any]]:
    """A scope that places operations on a device unless they name another.

    It gives the list of its operations, which is complete after the scope is left.
    """
    first, made = len(graph.get_operations()), []  # type: int, list[Any]
    contexts = {key: list(graph.get_collection_ref(key)) for key in _CONTEXTS}
    try:
        with graph_lib.outside_of_scopes(graph), old_control_flow():
            yield made
    except BaseException:
        for key, before in contexts.items():
            graph.get_collection_ref(key)[:] = before  # Remove unfinished contexts.
        raise
    made += graph.get_operations()[first:]
    for operation in made:
        if not operation.device:
            operation._set_device(device)
