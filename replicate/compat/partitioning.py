"""Copies parts of a graph, by an import, and changes what is there."""

from __future__ import annotations

import contextlib
from typing import Any, Container, ContextManager, Iterable, Mapping, Sequence

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import importer

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
    for node in definition.node:
        node.device = node.device or device
    with graph_lib.outside_of_scopes(graph):
        if functions:
            library = tf.GraphDef(versions=definition.versions)
            library.library.function.extend(functions)
            tf.import_graph_def(library, name="")
        with tf.name_scope(scope) as chosen:
            prefix = chosen.rstrip("/")
        return prefix, _import(graph, definition, inputs, wanted, prefix)


def _import(
    graph: Any, definition: Any, inputs: Mapping[str, Any], wanted: Sequence[str], prefix: str
) -> list[Any]:
    """Imports a `GraphDef` as `tf.import_graph_def` does, but leaves devices as nodes name them.

    TensorFlow asks device functions about each operation, which takes as long as all else.
    """
    given = importer.c_api_util.ScopedTFImportGraphDefOptions()
    importer._PopulateTFImportGraphDefOptions(given.options, prefix, inputs, wanted, False)
    with graph._mutation_lock():
        serialized = importer.c_api_util.tf_buffer(definition.SerializeToString())
        with serialized as buffer, _c_graph(graph) as c_graph:
            made = importer.c_api.TF_GraphImportGraphDefWithResults(c_graph, buffer, given.options)
        results = importer.c_api_util.ScopedTFImportGraphDefResults(made)
        graph._add_new_tf_operations(compute_devices=False)
    return importer._GatherReturnElements(wanted, graph, results.results)


def _c_graph(graph: Any) -> ContextManager[Any]:
    """Returns a scope in which the graph below the one of Python is held."""
    held = graph._c_graph
    return held.get() if hasattr(held, "get") else contextlib.nullcontext(held)  # 1.15


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
