"""Describes a rendezvous of towers, for comparison and for messages."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from replicate.graphs import code_of

BEFORE_OR_AFTER = "Make the call before or after the body, on its inputs or outputs."
UNDER_ANOTHER = (
    f"{BEFORE_OR_AFTER} If another optimizer makes the condition, let `TowerOptimizer` wrap that "
    "one. `TowerOptimizer` can scale losses and accumulate batches itself."
)


class Call(NamedTuple):
    """A rendezvous as one tower reached it."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    label: str
    site: str  # The line of the call, `file:line`.

    def same_as(self, other: Call) -> bool:
        """Whether two replicas that reached these calls are at the same rendezvous."""
        return self.label == other.label and code_of(self.fn) is code_of(other.fn)

    def __str__(self) -> str:
        return f"{self.label}, called at {self.site}"
