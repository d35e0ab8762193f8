"""Unwraps values that a branch of TensorFlow 2 passes to its gradient in optionals.

An optional says whether the branch was taken. If the condition is inlined, the values of the other
branch are dead, as are all operations that take them. So the gradient can take the value itself.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, NamedTuple, Sequence

from replicate.compat import graph as graph_lib


class Value(NamedTuple):
    """The value in an optional, and the operations that the optional waited for."""

    tensor: Any
    waits: tuple[Any, ...]


class Optionals:
    """Finds the values in the optionals that conditions return."""

    def __init__(self) -> None:
        self._predicates: dict[Any, Any] = {}  # By operation that merges optionals.
        self._inside: list[tuple[Any, int]] = []  # The branches that are being made.

    @contextlib.contextmanager
    def branch(self, predicate: Any, index: int) -> Iterator[None]:
        """A scope in which a branch of a condition is made: 1 is the one if it holds, else 0."""
        self._inside.append((graph_lib.reference(_root(predicate)), index))
        try:
            yield
        finally:
            self._inside.pop()

    def are_merged(self, outputs: Sequence[Any], predicate: Any) -> None:
        """Records the predicate of a condition that returns these tensors."""
        key = graph_lib.reference(_root(predicate))
        self._predicates.update((tensor.op, key) for tensor in outputs)

    def value(self, node: Any, inputs: Sequence[Any]) -> Value | None:
        """Returns the value that a node reads from an optional, None if it is not known."""
        if node.op != "OptionalGetValue" or len(node.attr["output_types"].list.type) != 1:
            return None
        return self._wrapped(inputs[0])

    def _wrapped(self, tensor: Any) -> Value | None:
        waits: list[Any] = []
        branches = dict(self._inside)  # By predicate: the branch in which the value is read.
        while not graph_lib.in_while_loop(tensor.op):
            operation = tensor.op
            if operation.type == "Switch":
                branches[graph_lib.reference(_root(operation.inputs[1]))] = tensor.value_index
            elif operation.type == "Merge":
                there = [one for one in operation.inputs if _root(one).op.type != "OptionalNone"]
                if len(there) != 1:
                    # Both branches give a value: that of the branch in which it is read is meant.
                    index = branches.get(self._predicates.get(operation))
                    there = [] if index is None else [operation.inputs[index]]
                if not there:
                    return None
                tensor = there[0]
                continue
            elif operation.type == "OptionalFromValue" and len(operation.inputs) == 1:
                return Value(operation.inputs[0], tuple(waits))
            elif operation.type != "Identity":
                return None
            waits += operation.control_inputs
            tensor = operation.inputs[0]
        return None


def _root(tensor: Any) -> Any:
    """Returns the tensor that identities and switches pass on."""
    while tensor.op.type in ("Identity", "Switch") and not graph_lib.in_while_loop(tensor.op):
        tensor = tensor.op.inputs[0]
    return tensor
