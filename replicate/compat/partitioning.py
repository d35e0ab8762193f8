"""Copies parts of a graph by importing them, and changes existing operations."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Container, Iterable, Iterator, Mapping, Sequence

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import importer

from replicate.compat import graph as graph_lib

RESERVED = "replicate/"  # Name scope that models must not use.


def import_nodes(
    graph: Any,
    nodes: Iterable[Any],
    inputs: Mapping[str, Any],
    scope: str,
    device: str,
    wanted: Sequence[str],
    functions: Sequence[Any] = (),
    waits: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[str, list[Any]]:
    """Makes operations of `NodeDef`s.

    Args:
        graph: The graph.
        nodes: The `NodeDef`s. Their inputs are names of other nodes, or keys of `inputs`. A node
            that names a device is placed there.
        inputs: Tensors of the graph, by name.
        scope: Name scope of the operations; another name is chosen if it exists.
        device: Device string for nodes that name none.
        wanted: Names of tensors to return.
        functions: `FunctionDef`s that the nodes call, if the graph does not have them.
        waits: Operations of the graph that nodes wait for, by name.

    Returns:
        The name scope that was chosen, and the tensors.

    Raises:
        ValueError: If TensorFlow refuses the nodes; then it has made none.
    """
    definition = tf.GraphDef()
    definition.versions.CopyFrom(graph.graph_def_versions)
    definition.node.extend(nodes)
    for node in definition.node:
        if not node.device:
            node.device = device
    with graph_lib.outside_of_scopes(graph):
        if functions:
            library = tf.GraphDef(versions=definition.versions)
            library.library.function.extend(functions)
            tf.import_graph_def(library, name="")
        prefix = _scope_for(graph, scope, definition.node)
        return prefix, _import(graph, definition, inputs, waits, wanted, prefix)


def _scope_for(graph: Any, wanted: str, nodes: Iterable[Any]) -> str:
    """Returns a name scope in which no operation has the name of a node."""
    while True:
        with tf.name_scope(wanted) as chosen:
            prefix = chosen.rstrip("/")
        names = (f"{prefix}/{node.name}".lower() for node in nodes)
        # One that ends with a slash is not changed by TensorFlow. Its maker chooses the names.
        if wanted.endswith("/") or graph._names_in_use.keys().isdisjoint(names):
            return prefix


def _import(
    graph: Any,
    definition: Any,
    inputs: Mapping[str, Any],
    waits: Mapping[str, Any],
    wanted: Sequence[str],
    prefix: str,
) -> list[Any]:
    """Imports a `GraphDef` like `tf.import_graph_def`, but in half of the time."""
    given = importer.c_api_util.ScopedTFImportGraphDefOptions()
    importer._PopulateTFImportGraphDefOptions(given.options, prefix, inputs, wanted, False)
    for name, operation in waits.items():
        importer.c_api.TF_ImportGraphDefOptionsRemapControlDependency(
            given.options, name, operation._c_op
        )
    with graph._mutation_lock():
        serialized = importer.c_api_util.tf_buffer(definition.SerializeToString())
        with serialized as buffer, graph_lib.c_graph(graph) as c_graph:
            try:
                made = importer.c_api.TF_GraphImportGraphDefWithResults(
                    c_graph, buffer, given.options
                )
            except tf.errors.InvalidArgumentError as error:
                raise ValueError(str(error)) from error
        results = importer.c_api_util.ScopedTFImportGraphDefResults(made)
        there = _add_made(graph)
        if hasattr(graph, "new_operations"):  # Older versions keep inputs in a class of their own.
            _keep_inputs(definition.node, there, inputs, prefix)
    return importer._GatherReturnElements(wanted, graph, results.results)


def _add_made(graph: Any) -> dict[str, Any]:
    """Gives a graph the Python operations of those that C++ has made in it; returns them by name.

    Unlike TensorFlow's `_add_new_tf_operations`, it reads no inputs, calls no device functions and
    applies no scopes: copies have their attributes, devices and control inputs already.
    """
    new = graph.new_operations() if hasattr(graph, "new_operations") else list(_made_last(graph))
    make = getattr(tf.Operation, "_from_c_op", tf.Operation)  # 2.12 and older: a constructor.
    made = {}
    for c_operation in new:
        operation = make(c_operation, graph)
        name = operation.name  # Read once, since it asks C++.
        made[name] = operation
        graph._names_in_use.setdefault(name.lower(), 1)
    return made


def _keep_inputs(
    nodes: Iterable[Any], made: Mapping[str, Any], given: Mapping[str, Any], prefix: str
) -> None:
    """Lets operations know their inputs, as they would when these are first asked for.

    To ask C++ takes several times as long, and most operations are asked later.
    """
    tensors = {name if ":" in name else f"{name}:0": tensor for name, tensor in given.items()}
    found: dict[str, Any] = {}
    for node in nodes:
        inputs = []
        for name in node.input:
            if name[0] == "^":
                break  # Control inputs come last.
            if name not in found:
                of, _, index = name.partition(":")
                tensor = tensors.get(name if index else f"{name}:0")
                is_made = tensor is None
                found[name] = made[f"{prefix}/{of}"].outputs[int(index or 0)] if is_made else tensor
            inputs.append(found[name])
        made[f"{prefix}/{node.name}"]._inputs_val = tuple(inputs)


def _made_last(graph: Any) -> Iterator[Any]:
    """Yields the C++ operations without a Python one, on TensorFlow 2.12 and older.

    TensorFlow's own function looks at all operations of the graph, for each import. C++ numbers
    them, beginning with 2, so the new ones have numbers behind the others. But there are gaps in
    place of operations that could not be made, so some older ones may come first.
    """
    number = graph_lib.count(graph) + 1
    while True:
        with graph_lib.c_graph(graph) as c_graph:
            c_operation, number = importer.c_api.TF_GraphNextOperation(c_graph, number)
        if c_operation is None:
            return
        try:
            graph._get_operation_by_tf_operation(c_operation)
        except KeyError:
            yield c_operation


def set_apart(node: Any) -> None:
    """Removes from a `NodeDef` its ties to other operations, which a tower may not have.

    `_class` names those that share its device. `_XlaCompile` lets XLA compile it together with
    others, and XLA fails if these are on several CPU devices.
    """
    for name in ("_class", "_XlaCompile"):
        node.attr.pop(name, None)


def unplaced(node_def: Any) -> Any:
    """Returns a copy of a `NodeDef`, without inputs and without a device."""
    node = tf.NodeDef()
    node.CopyFrom(node_def)
    node.device = ""
    set_apart(node)
    del node.input[:]
    return node


def add_nodes_in_order(operations: Iterable[Any]) -> list[Any]:
    """Returns operations in the order in which they were made."""
    return sorted(operations, key=graph_lib.id_of)


def are_made_in_order(operations: Iterable[Any]) -> bool:
    """Whether each operation was made after those that it takes tensors of, or waits for."""
    for operation in operations:
        made_at = operation._id
        for tensor in operation.inputs:
            if tensor.op._id > made_at:
                return False
        for before in operation.control_inputs:
            if before._id > made_at:
                return False
    return True


def take(operation: Any, index: int, tensor: Any) -> None:
    """Makes `tensor` the input `index` of an operation."""
    operation._update_input(index, tensor)


def replace(pairs: Iterable[tuple[Any, Any]]) -> None:
    """Replaces the first tensor of each pair by the second one in all operations that take it."""
    takers: dict[str, Any] = {}
    others: dict[int, Any] = {}
    for tensor, other in pairs:
        others[id(tensor)] = other
        takers.update((op.name, op) for op in tensor.consumers())
    for op in takers.values():
        for index, given in enumerate(list(op.inputs)):  # A copy: changes replace the list.
            if id(given) in others:
                take(op, index, others[id(given)])


def again(operation: Any, inputs: Iterable[Any]) -> Any:
    """Makes an operation like another one, but with other inputs; returns its outputs."""
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
    """Changes the operations that an operation waits for.

    Args:
        operation: The operation.
        others: For an operation that it waits for now, the operations to wait for instead.
        gone: Operations that it need not wait for any more.
    """
    before = list(operation.control_inputs)
    if not any(one in others or one in gone for one in before):
        return
    now: dict[Any, None] = {}
    for one in before:
        if one not in gone:
            now.update(dict.fromkeys(others.get(one, (one,))))
    graph_lib.set_control_inputs(operation, list(now))


def override_gradient(operation: Any, name: str) -> None:
    """Gives an operation the gradient that is registered by a name, in place of its type's."""
    operation._set_attr("_gradient_op_type", tf.AttrValue(s=name.encode()))


def place(operation: Any, device: str) -> None:
    """Moves an operation to a device."""
    operation._set_device(device)
