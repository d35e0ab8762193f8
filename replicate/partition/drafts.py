"""Operations that are yet to be made, perhaps in loops and conditions of TensorFlow 1.

One import makes all of them, in a fraction of the time of making each in Python. A node in a loop
or a branch takes values from around it through an `Enter` or a `Switch`, and waits for a *pivot* if
nothing else ties it to the rounds or the branch.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import contexts, function_graphs, partitioning
from replicate.compat import graph as graph_lib
from replicate.compat.node_defs import node_of
from replicate.partition.draft_values import Context, Producer, Value

# Types of operations whose outputs have the shape of their first input.
_PASS_ON = frozenset(["Enter", "Exit", "Identity", "NextIteration", "Switch"])


class Draft:
    """Nodes of operations that are yet to be made.

    Args:
        graph: The graph.
        scope: The name scope of the operations; another name is chosen if it exists.
        device: The device of nodes that name none.
    """

    def __init__(self, graph: Any, scope: str, device: str) -> None:
        self._graph = graph
        self._device = device
        self.scope = graph_lib.free_scope(graph, scope)
        self._nodes: dict[str, Any] = {}
        self._types: dict[str, Sequence[Any]] = {}
        self._scalars: set[str] = set()  # Names of values that are known to be scalars.
        self._contexts: dict[str, Context] = {}  # By node, of those that are in one.
        # By context, and name of a value or wait from around it: the value that is taken there.
        self._inside: dict[tuple[Context, str], Value] = {}
        self._given: dict[Any, Value] = {}
        self._tensors: dict[str, Any] = {}
        self._operations: dict[str, Any] = {}

    def given(self, tensor: Any) -> Value:
        """Returns a tensor of the graph as a value."""
        key = graph_lib.reference(tensor)
        if key not in self._given:
            name, dtype = f"given_{len(self._given)}", tensor.dtype.base_dtype
            self._given[key] = Value(f"{name}:0", dtype, tensor.shape.rank == 0)
            self._tensors[name] = tensor
            self._operations[name] = tensor.op
            self._types[name] = [dtype]
        return self._given[key]

    def awaited(self, operation: Any) -> str:
        """Returns the name by which nodes wait for an operation of the graph."""
        if operation not in self._given:
            name = f"given_{len(self._given)}"
            self._given[operation] = Value(name, None)
            self._operations[name] = operation
        return self._given[operation].name

    def node(
        self, node: Any, inputs: Sequence[Value], waits: Sequence[str], context: Context | None
    ) -> list[Value]:
        """Adds a node, which it changes and keeps.

        Args:
            node: The `NodeDef`, without inputs.
            inputs: Its inputs, perhaps from around its context.
            waits: The nodes that it waits for, likewise.
            context: Its `Context`, None outside of loops and conditions.

        Returns:
            Its outputs.
        """
        taken = [self.within(value, context) for value in inputs]
        before = [self._wait_within(name, context) for name in waits]
        if context is not None and self._is_free(node.op, taken, waits, context):
            before.append(context.pivot)
        return self.put(node, taken, list(dict.fromkeys(filter(None, before))), context)

    def add(
        self,
        kind: str,
        name: str,
        inputs: Sequence[Value],
        waits: Sequence[str] = (),
        context: Context | None = None,
        **attrs: Any,
    ) -> list[Value]:
        """Adds a node of a type; see `node_of` and `node`."""
        return self.node(node_of(kind, name, attrs), inputs, waits, context)

    def wait(self, names: Sequence[str], name: str, context: Context | None) -> str:
        """Adds a node that waits for others; returns its name."""
        node = node_of("NoOp", name, {})
        self.node(node, (), names, context)
        return str(node.name)

    def constant(
        self, value: Any, dtype: Any, scope: str, waits: Sequence[str], context: Context | None
    ) -> Value:
        """Adds a scalar constant of a type."""
        held = tf.AttrValue(tensor=tf.make_tensor_proto(value, dtype))
        attrs = {"dtype": dtype, "value": held}
        node = node_of("Const", f"{scope}Const", attrs, tf.TensorShape(()).as_proto())
        return self.node(node, (), waits, context)[0]

    def put(
        self, node: Any, inputs: Sequence[Value], waits: Sequence[str], context: Context | None
    ) -> list[Value]:
        """Adds a node to a context, with inputs and waits as they are; returns its outputs."""
        node.name = self._free_name(node.name)
        node.input.extend([value.name for value in inputs] + [f"^{name}" for name in waits])
        self._nodes[node.name] = node
        if context is not None:
            self._contexts[node.name] = context
        types = self._types[node.name] = function_graphs.types_of(self._graph, node)
        shapes = node.attr["_output_shapes"].list.shape if "_output_shapes" in node.attr else ()
        for index in range(len(types)):
            is_known = index < len(shapes) and not shapes[index].unknown_rank
            passes_scalar = node.op in _PASS_ON and inputs[0].is_scalar
            if not shapes[index].dim if is_known else passes_scalar:
                self._scalars.add(f"{node.name}:{index}")
        return [self._value(f"{node.name}:{index}") for index in range(len(types))]

    def within(self, value: Value, context: Context | None) -> Value:
        """Returns a value, perhaps from around a context, as nodes of the context take it."""
        if context is None or self._owner(value.node) is context:
            return value
        key = context, value.name
        if key not in self._inside:
            outer = self.within(value, context.outer)
            attrs: dict[str, Any] = {"T": value.dtype}
            if context.predicate is None:
                attrs.update(frame_name=context.frame, parallel_iterations=context.rounds)
                node = node_of("Enter", f"{value.node}/Enter", {**attrs, "is_constant": True})
                self._inside[key] = self.put(node, [outer], (), context)[0]
            else:
                node = node_of("Switch", f"{value.node}/Switch", attrs)
                sides = self.put(node, [outer, context.predicate], (), context)
                self._inside[key] = sides[context.branch]
        return self._inside[key]

    def producer(self, value: Value) -> Producer:
        """Returns the operation that gives a value."""
        if value.node in self._tensors:
            tensor = self._tensors[value.node]
            return Producer(
                tensor.op.type,
                [self.given(each) for each in tensor.op.inputs],
                [self.awaited(each) for each in tensor.op.control_inputs],
                tensor.value_index,
                tensor.op,
                graph_lib.in_while_loop(tensor.op),
            )
        node, context = self._nodes[value.node], self._contexts.get(value.node)
        return Producer(
            node.op,
            [self._value(name) for name in node.input if not name.startswith("^")],
            [name[1:] for name in node.input if name.startswith("^")],
            int(value.name.split(":")[1]),
            value.node,
            context is not None and context.loop is not None,
        )

    def make(self) -> Made:
        """Makes the operations.

        Raises:
            ValueError: If TensorFlow refuses shapes or types; then it makes none.
        """
        nodes, given = list(self._nodes.values()), self._operations
        scope = f"{self.scope}/"
        partitioning.import_nodes(
            self._graph, nodes, self._tensors, scope, self._device, (), waits=given
        )
        made = Made(self._graph, self.scope, self._tensors, given, tuple(self._nodes))
        there: dict[Context | None, Any] = {None: None}
        for name, context in self._contexts.items():
            contexts.put(made.operation(name), _real(context, made, there))
        return made

    def _free_name(self, wanted: str) -> str:
        """Returns a name that no node has."""
        found, number = wanted, 0
        while found in self._nodes:
            number += 1
            found = f"{wanted}_{number}"
        return found

    def _value(self, name: str) -> Value:
        node, index = name.split(":")
        return Value(name, self._types[node][int(index)], name in self._scalars)

    def _owner(self, name: str) -> Context | None:
        """Returns the context in which the values of a node can be taken."""
        context = self._contexts.get(name)
        return context.outer if context and self._nodes[name].op == "Exit" else context

    def _wait_within(self, name: str, context: Context | None) -> str:
        """Returns the node to wait for in a context in place of another; "" if there is none."""
        loop, owner = context and context.loop, self._owner(name)
        if loop is None or (owner is not None and owner.loop is loop):
            return name
        if not self._types.get(name):
            return ""  # It has no value that could enter; the loop's variables wait for it.
        key = loop, f"^{name}"
        if key not in self._inside:
            taken = self.within(self._value(f"{name}:0"), loop)
            node = node_of("Identity", f"{name}/wait", {"T": taken.dtype})
            self._inside[key] = self.put(node, [taken], (), loop)[0]
        return self._inside[key].node

    def _is_free(
        self, kind: str, inputs: Sequence[Value], waits: Sequence[str], context: Context
    ) -> bool:
        """Whether a node would run in rounds or branches that are not taken."""
        if function_graphs.is_function(self._graph, kind):
            return True
        if any(owner and owner.is_within(context) for owner in map(self._owner, waits)):
            return False
        if context.frame:  # A value that enters is there in each round, also after the last.
            return all(self._is_constant(value) for value in inputs)
        return not inputs

    def _is_constant(self, value: Value) -> bool:
        """Whether a value in a loop enters it, and is the same in all rounds."""
        node = self._nodes.get(value.node)
        return node is not None and node.op == "Enter" and node.attr["is_constant"].b


class Made(NamedTuple):
    """The operations of a draft.

    Attributes:
        graph: The graph.
        scope: The name scope.
        tensors: By name: the tensors of the graph that the draft took.
        given: By name: the operations of the graph that it took from or waited for.
        names: The names of its nodes.
    """

    graph: Any
    scope: str
    tensors: dict[str, Any]
    given: dict[str, Any]
    names: Sequence[str]

    def operation(self, name: str) -> Any:
        """Returns the operation of a node."""
        if name in self.given:
            return self.given[name]
        return self.graph.get_operation_by_name(f"{self.scope}/{name}")

    def tensor(self, value: Value) -> Any:
        """Returns the tensor of a value."""
        if value.node in self.tensors:
            return self.tensors[value.node]
        return self.operation(value.node).outputs[int(value.name.split(":")[1])]

    def operations(self) -> list[Any]:
        """Returns all operations, in the order in which their nodes were added."""
        return [self.operation(name) for name in self.names]


def _real(context: Context | None, made: Made, there: dict[Context | None, Any]) -> Any:
    """Returns the control flow context of a context; `there` has those that exist."""
    if context not in there:
        assert context is not None
        outer = _real(context.outer, made, there)
        if context.predicate is None:
            there[context] = contexts.loop(outer, context.frame, context.rounds)
        else:
            pivot = made.operation(context.pivot)
            held = made.tensor(context.predicate)
            there[context] = contexts.branch(outer, held, pivot, context.branch)
    return there[context]
