"""What is said of where towers meet."""

from typing import Callable, NamedTuple

from replicate.graphs import code_of

BEFORE_OR_AFTER = "Make the call before or after the body, on what it takes or returns."
UNDER_ANOTHER = (
    f"{BEFORE_OR_AFTER} Where another optimizer makes the condition, let `TowerOptimizer` wrap "
    "that one; loss scales and accumulation over batches it has itself."
)


class Call(NamedTuple):
    """A rendezvous as one tower reached it."""

    fn: Callable
    args: tuple
    label: str
    site: str  # Where it was called, `file:line`.

    def same_as(self, other):
        """Whether towers at these calls meet."""
        return self.label == other.label and code_of(self.fn) is code_of(other.fn)

    def __str__(self):
        return f"{self.label}, called at {self.site}"
