"""Unwraps values that a branch of TensorFlow 2 passes to its gradient in optionals.

An optional says whether the branch was taken. If the condition is inlined, the values of the other
branch are dead, as are all operations that take them. So the gradient can take the value itself.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, NamedTuple, Sequence

from replicate.partition.draft_values import Producer, Value
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
            producer = draft.producer(value)
            if producer.in_loop:
                return None
            if producer.kind == "OptionalFromValue" and len(producer.inputs) == 1:
                return Wrapped(producer.inputs[0], tuple(waits))
            if producer.kind == "Merge":
                found = self._merged(producer, branches, draft)
                if found is None:
                    return None
                value = found
                continue
            if producer.kind == "Switch":
                branches[_key(_root(producer.inputs[1], draft))] = producer.output
            elif producer.kind != "Identity":
                return None
            waits += producer.waits
            value = producer.inputs[0]

    def _merged(self, producer: Producer, branches: dict[Any, int], draft: Draft) -> Value | None:
        """Returns the input of a `Merge` that is meant, None if it is not known."""
        there = [value for value in producer.inputs if _root(value, draft).kind != "OptionalNone"]
        if len(there) == 1:
            return there[0]
        # Both branches give a value: that of the branch in which it is read is meant.
        index = branches.get(self._predicates.get(producer.key))
        return None if index is None else producer.inputs[index]


def _key(producer: Producer) -> tuple[Any, int]:
    return producer.key, producer.output


def _root(value: Value, draft: Draft) -> Producer:
    """Returns the producer of the value that identities and switches pass on."""
    producer = draft.producer(value)
    while producer.kind in ("Identity", "Switch") and not producer.in_loop:
        producer = draft.producer(producer.inputs[0])
    return producer
