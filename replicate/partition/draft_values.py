"""Values of a draft, and the loops and branches in which its nodes are."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence


class Value(NamedTuple):
    """A tensor of the graph, or one that is yet to be made.

    Attributes:
        name: Its name among the nodes.
        dtype: Its type.
        is_scalar: Whether it is known to be a scalar.
    """

    name: str
    dtype: Any
    is_scalar: bool = False

    @property
    def node(self) -> str:
        """The name of its node."""
        return self.name.split(":")[0]


class Context:
    """A loop, or a branch of a condition.

    Args:
        outer: The context around it, None if there is none.
        pivot: The name of the node to wait for; a loop's condition and its rounds have different
            ones.
        frame: The name of a loop's frame, empty for a branch.
        rounds: The number of rounds of a loop that may run at once.
        predicate: The predicate of a branch, a `Value` of the context around it.
        branch: 1 for the branch that runs if the predicate holds, else 0.
    """

    def __init__(
        self,
        outer: Context | None,
        pivot: str = "",
        frame: str = "",
        rounds: int = 0,
        predicate: Value | None = None,
        branch: int = 0,
    ) -> None:
        self.outer = outer
        self.pivot = pivot
        self.frame = frame
        self.rounds = rounds
        self.predicate = predicate
        self.branch = branch

    @property
    def loop(self) -> Context | None:
        """The innermost loop, maybe this one; None if there is none."""
        if self.frame or self.outer is None:
            return self if self.frame else None
        return self.outer.loop

    def is_within(self, other: Context) -> bool:
        """Whether this context is another one, or inside of it."""
        return self is other or (self.outer is not None and self.outer.is_within(other))


class Producer(NamedTuple):
    """The operation that gives a value, made or not.

    Attributes:
        kind: Its type.
        inputs: Its inputs.
        waits: The nodes that it waits for.
        output: The index of the value among its outputs.
        key: The operation, or the name of its node.
        in_loop: Whether it is in a loop.
    """

    kind: str
    inputs: Sequence[Value]
    waits: Sequence[str]
    output: int
    key: Any
    in_loop: bool
