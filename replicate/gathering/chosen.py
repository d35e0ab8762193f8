"""How gradients are gathered of a model that is partitioned after it is built.

Its optimizers, which run as on one device, say so here while they are built.
"""

from __future__ import annotations

import contextlib
import contextvars
from typing import Any, Iterator, Sequence

from replicate.gathering.gather import Gather


class Choice:
    """Collects what optimizers say.

    Attributes:
        how: The `Gather`, the last one's.
        gradients: The gradients that were applied.
    """

    def __init__(self) -> None:
        self.how = Gather()
        self.gradients: list[Any] = []


_choice: contextvars.ContextVar[Any] = contextvars.ContextVar("replicate_gather", default=None)


@contextlib.contextmanager
def listening() -> Iterator[Choice]:
    """A scope that takes down what optimizers say; it gives the `Choice`."""
    choice = Choice()
    token = _choice.set(choice)
    try:
        yield choice
    finally:
        _choice.reset(token)


def say(how: Gather, gradients: Sequence[Any] = ()) -> None:
    """Says how gradients are gathered, and which ones are applied."""
    choice = _choice.get()
    if choice is not None:
        choice.how = how
        choice.gradients += gradients
