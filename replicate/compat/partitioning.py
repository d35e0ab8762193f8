"""Copies parts of a graph, by an import, and changes what is there."""

from __future__ import annotations

from typing import Any, Container, Iterable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib

RESERVED = "replicate/"  # No operation of a model is in this name scope.


def import_nodes(
    graph: Any,
    nodes: Iterable[Any],
    inputs: Mapping[str, Any],
    scope: str,
    device: str,
    wanted: Sequence[str],
    functions: Sequence[Any] = (),
) -> tuple[str, list[Any]]:
    """Makes operations of `NodeDef`s.

    Args:
        graph: The graph.
        nodes: The `NodeDef`s, whose inputs are each other's names or keys of `inputs`. Those that
            name a device go there.
        inputs: Tensors of the graph, by name.
        scope: Name scope of the operations; where there is one, another is chosen.
        device: Device string of those that name none.
        wanted: Names of tensors to return.
        functions: `FunctionDef`s that they call, besides those of the graph.

    Returns:
        The scope that was chosen, and the tensors.
    """
    definition = tf.GraphDef()
    definition.versions.CopyFrom(graph.graph_def_versions)
    definition.node.extend(nodes)
    definition.library.function.extend(functions)
    with graph_lib.outside_of_scopes(graph):
        with tf.name_scope(scope) as chosen:
            pass
        before = len(graph.get_operations())
        made = tf.import_graph_def(definition, dict(inputs), list(wanted), name=chosen)
    # An import opens a scope for each device that it finds, which takes as long as all else.
    elsewhere = {chosen + node.name for node in definition.node if node.device}
    for operation in graph.get_operations()[before:]:
        if operation.name not in elsewhere:
            operation._set_device(device)
    return chosen.rstrip("/"), made


def repeat(
    operations: Sequence[Any],
    wanted: Sequence[Any],
    instead: Mapping[str, Any],
    scope: str,
    device: str,
) -> list[Any]:
    """Makes operations once more on another device, which takes less time than to make them anew.

    Args:
        operations: The operations.
        wanted: Some of their tensors.
        instead: By names of all tensors that they take of others: what the new ones take.
        scope: As `import_nodes` takes it.
        device: Device string of the new ones.

    Returns:
        The new ones in the place of `wanted`.
    """
    nodes = [operation.node_def for operation in operations]
    for node in nodes:
        node.device = ""
    names = [tensor.name for tensor in wanted]
    return import_nodes(operations[0].graph, nodes, instead, scope, device, names)[1]


def unplaced(node_def: Any) -> Any:
    """Returns a copy of a `NodeDef`, without inputs and on no device."""
    node = tf.NodeDef()
    node.CopyFrom(node_def)
    node.device = ""
    node.attr.pop("_class", None)
    del node.input[:]
    return node


def add_nodes_in_order(operations: Iterable[Any]) -> list[Any]:
    """Returns operations in the order in which they were made."""
    return sorted(operations, key=graph_lib.id_of)


def take(operation: Any, index: int, tensor: Any) -> None:
    """Makes `tensor` the input `index` of an operation."""
    operation._update_input(index, tensor)


def replace(pairs: Iterable[tuple[Any, Any]]) -> None:
    """Lets whatever takes the first tensor of a pair take the second one instead."""
    takers: dict[str, Any] = {}
    others: dict[int, Any] = {}
    for tensor, other in pairs:
        others[id(tensor)] = other
        takers.update((op.name, op) for op in tensor.consumers())
    for op in takers.values():  # Whose inputs are listed anew after each change.
        for index, given in enumerate(list(op.inputs)):
            if id(given) in others:
                take(op, index, others[id(given)])


def again(operation: Any, inputs: Iterable[Any]) -> Any:
    """Makes an operation like another one of other inputs; returns its outputs."""
    attrs = {name: value for name, value in operation.node_def.attr.items() if name != "_class"}
    made = operation.graph.create_op(
        operation.type,
        list(inputs),
        [output.dtype for output in operation.outputs],
        name=operation.type,
        attrs=attrs,
        op_def=operation.op_def,
    )
    return made.outputs


def wait_instead(
    operation: Any, others: Mapping[Any, Sequence[Any]], gone: Container[Any] = ()
) -> None:
    """Lets an operation wait for others than it waits for now.

    Args:
        operation: The operation.
        others: By operation: the operations to wait for in its place.
        gone: What it need not wait for.
    """
    before = list(operation.control_inputs)
    if not any(one in others or one in gone for one in before):
        return
    now: dict[Any, None] = {}
    for one in before:
        if one not in gone:
            now.update(dict.fromkeys(others.get(one, (one,))))
    graph_lib.set_control_inputs(operation, list(now))


def place(operation: Any, device: str) -> None:
    """Moves an operation to a device."""
    operation._set_device(device)
