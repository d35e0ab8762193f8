"""Finds the functions that operations call, and which of them can be inlined into the graph."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import function_graphs
from replicate.compat.function_graphs import Body, before
from replicate.partition.effects import READ_NOW, READS

CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])
CONDITIONS = frozenset(["If", "StatelessIf"])
CASES = frozenset(["Case", "StatelessCase"])
LOOPS = frozenset(["While", "StatelessWhile"])
TYPES = CALLS | CONDITIONS | CASES | LOOPS

# Stateful, but reads of variables do not notice that they run. An operation that holds a reference
# variable counts as writing, since writes to references are not marked as stateful.
_WRITE_NOTHING = READS - {"Variable", "VariableV2"} | {"Assert", "Print", "PrintV2"}
# Loops and conditions of TensorFlow 1. Such operations cannot move to another graph one by one.
_OLD_FLOW = frozenset(
    ["Enter", "Exit", "LoopCond", "Merge", "NextIteration", "RefEnter", "RefExit", "RefMerge"]
    + ["RefNextIteration", "RefSwitch", "Switch"]
)
_READ = READ_NOW | {"VarIsInitializedOp"}


def functions_of(node: Any) -> list[str]:
    """Returns the names of the functions of a node of one of `TYPES`, in order."""
    if node.op in CALLS:
        return [node.attr["f"].func.name]
    if node.op in CONDITIONS:
        return [node.attr["then_branch"].func.name, node.attr["else_branch"].func.name]
    if node.op in CASES:
        return [function.name for function in node.attr["branches"].list.func]
    return [node.attr["cond"].func.name, node.attr["body"].func.name]


def is_read(node: Any) -> bool:
    """Whether a node reads a variable."""
    return node.op in _READ


class Bodies:
    """The bodies of the functions of a graph.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._found: dict[str, Body | None] = {}
        self._lowered: dict[str, bool] = {}
        self._writes: dict[str, bool] = {}

    def body_of(self, name: str) -> Body:
        """Returns the body of a function that can be inlined."""
        found = self._body(name)
        assert found is not None
        return found

    def can_be_lowered(self, node: Any, inside: Sequence[str] = ()) -> bool:
        """Whether a node can be replaced by the bodies of its functions.

        Args:
            node: The `NodeDef`.
            inside: The names of the functions that contain it, to find recursion.
        """
        if node.op not in TYPES or _is_compiled(node):
            return False
        names = functions_of(node)
        if not names or not all(self._is_open(name, inside) for name in names):
            return False
        return node.op not in LOOPS or self._is_loop(self.body_of(names[1]))

    def _is_loop(self, body: Body) -> bool:
        """Whether a loop has variables that change, and none of them is a resource."""
        same = unchanged(body)
        changed = [kind for index, kind in enumerate(body.types) if index not in same]
        return bool(changed) and tf.resource not in changed

    def writes(self, node: Any) -> bool:
        """Whether a node may write state that others read."""
        if node.op in TYPES:
            return any(self._function_writes(name) for name in functions_of(node))
        # Random operations are stateful, too, but nothing else reads their state.
        if node.op in _WRITE_NOTHING or "seed2" in node.attr:
            return False
        return function_graphs.is_stateful(self._graph, node)

    def _body(self, name: str) -> Body | None:
        if name not in self._found:
            self._found[name] = function_graphs.body_of(self._graph, name)
        return self._found[name]

    def _is_open(self, name: str, inside: Sequence[str]) -> bool:
        """Whether a function, and all functions that it calls, can be inlined."""
        if name in inside:
            return False  # It is recursive.
        if name not in self._lowered:
            body = self._body(name)
            self._lowered[name] = body is not None and all(
                node.op not in _OLD_FLOW
                and not function_graphs.makes_resources(self._graph, node)
                and (node.op not in TYPES or self.can_be_lowered(node, [*inside, name]))
                for node in body.nodes
            )
        return self._lowered[name]

    def _function_writes(self, name: str) -> bool:
        if name not in self._writes:
            self._writes[name] = True  # The answer for a recursive call.
            body = self._body(name)
            self._writes[name] = body is None or any(self.writes(node) for node in body.nodes)
        return self._writes[name]


def _is_compiled(node: Any) -> bool:
    """Whether XLA compiles a node as a unit."""
    return any(
        node.attr[name].b for name in ("_XlaMustCompile", "_XlaCompile") if name in node.attr
    )


def unchanged(body: Body) -> frozenset[int]:
    """Returns the indices of a loop's variables that no round changes."""
    passed = {
        f"{node.name}:0": full(node.input[0])
        for node in body.nodes
        if node.op == "Identity" and len(node.input) == 1
    }
    found = []
    for index, name in enumerate(body.outputs):
        name = full(name)
        while name in passed:
            name = passed[name]
        if name == body.arguments[index]:
            found.append(index)
    return frozenset(found)


def shapes_in_all_rounds(node: Any, body: Body) -> list[Any]:
    """Returns the `TensorShapeProto`s that the variables of a loop keep.

    TensorFlow gives the node the shapes after a round when it builds the gradient. The arguments of
    the body have those of the round before.
    """
    after = [tf.TensorShape(shape) for shape in node.attr["output_shapes"].list.shape]
    if len(after) != len(body.shapes):
        return [None] * len(body.shapes)
    return [
        one.most_specific_compatible_shape(other).as_proto()
        for one, other in zip(body.shapes, after)
    ]


def full(name: str) -> str:
    """Returns the name of a tensor with its index."""
    return name if ":" in name else f"{name}:0"


def leads(body: Body) -> dict[str, frozenset[str]]:
    """Returns, by node, the nodes that always run and lead to it, including itself."""
    always = set(body.waits)
    found: dict[str, frozenset[str]] = {}
    for node in body.nodes:
        itself = {node.name} & always
        found[node.name] = frozenset(itself).union(
            *(found.get(name, frozenset()) for name in before(node))
        )
    return found
