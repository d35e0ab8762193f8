"""Unwraps values that a branch of TensorFlow 2 passes to its gradient in optionals.

An optional says whether the branch was taken. If the condition is inlined, the values of the other
branch are dead, as are all operations that take them. So the gradient can take the value itself.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, NamedTuple, Sequence

from replicate.partition.draft_values import Origin, Value
from replicate.partition.drafts import Draft, Made


class Wrapped(NamedTuple):
    """The value in an optional, and the nodes that the optional waited for."""

    value: Value
    waits: tuple[str, ...]


class Optionals:
    """Finds the values in the optionals that conditions return.

    Operations are known by themselves, and those that are yet to be made by their nodes.
    """

    def __init__(self) -> None:
        # By what merges optionals: what gives the predicate, and the index of its output.
        self._predicates: dict[Any, tuple[Any, int]] = {}
        self._inside: list[tuple[tuple[Any, int], int]] = []  # The branches being written.

    @contextlib.contextmanager
    def branch(self, predicate: Value, index: int, draft: Draft) -> Iterator[None]:
        """A scope in which a branch of a condition is written: 1 is the one if it holds, else 0."""
        self._inside.append((_key(_root(predicate, draft)), index))
        try:
            yield
        finally:
            self._inside.pop()

    def are_merged(self, outputs: Sequence[Value], predicate: Value, draft: Draft) -> None:
        """Records the predicate of a condition that returns these values."""
        key = _key(_root(predicate, draft))
        self._predicates.update((value.node, key) for value in outputs)

    def are_made(self, made: Made) -> None:
        """Records the operations that were made of nodes."""

        def real(one: Any) -> Any:
            return made.operation(one) if isinstance(one, str) else one

        self._predicates = {
            real(one): (real(key), index) for one, (key, index) in self._predicates.items()
        }

    def forget(self) -> None:
        """Forgets the nodes of a draft that is given up."""
        self._predicates = {
            one: key for one, key in self._predicates.items() if not isinstance(one, str)
        }

    def value(self, node: Any, inputs: Sequence[Value], draft: Draft) -> Wrapped | None:
        """Returns the value that a node reads from an optional, None if it is not known."""
        if node.op != "OptionalGetValue" or len(node.attr["output_types"].list.type) != 1:
            return None
        waits: list[str] = []
        branches = dict(self._inside)  # By predicate: the branch in which the value is read.
        value = inputs[0]
        while True:
            origin = draft.origin(value)
            if origin.in_loop:
                return None
            if origin.kind == "OptionalFromValue" and len(origin.inputs) == 1:
                return Wrapped(origin.inputs[0], tuple(waits))
            if origin.kind == "Merge":
                found = self._merged(origin, branches, draft)
                if found is None:
                    return None
                value = found
                continue
            if origin.kind == "Switch":
                branches[_key(_root(origin.inputs[1], draft))] = origin.output
            elif origin.kind != "Identity":
                return None
            waits += origin.waits
            value = origin.inputs[0]

    def _merged(self, origin: Origin, branches: dict[Any, int], draft: Draft) -> Value | None:
        """Returns the input of a `Merge` that is meant, None if it is not known."""
        there = [value for value in origin.inputs if _root(value, draft).kind != "OptionalNone"]
        if len(there) == 1:
            return there[0]
        # Both branches give a value: that of the branch in which it is read is meant.
        index = branches.get(self._predicates.get(origin.key))
        return None if index is None else origin.inputs[index]


def _key(origin: Origin) -> tuple[Any, int]:
    return origin.key, origin.output


def _root(value: Value, draft: Draft) -> Origin:
    """Returns the origin of the value that identities and switches pass on."""
    origin = draft.origin(value)
    while origin.kind in ("Identity", "Switch") and not origin.in_loop:
        origin = draft.origin(origin.inputs[0])
    return origin
