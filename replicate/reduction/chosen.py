"""How gradients are gathered of a model that is partitioned after it is built.

Its optimizers, which run as on one device, say so here while they are built.
"""

from __future__ import annotations

import contextlib
import contextvars
from typing import Any, Iterator, Sequence

from replicate.reduction.gather import Gather


class Choice:
    """Collects what optimizers say.

    Attributes:
        how: The `Gather`, the last one's.
        gradients: The gradients that were applied.
        variables: The variables that they were applied to.
        scale: What gradients are multiplied by while they cross devices in float16, a scalar
            tensor; None: nothing.
    """

    def __init__(self) -> None:
        self.how = Gather()
        self.gradients: list[Any] = []
        self.variables: list[Any] = []
        self.scale: Any = None


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


def is_listening() -> bool:
    """Whether a model is being built here that is to be partitioned."""
    return _choice.get() is not None


def say(how: Gather, grads_and_vars: Sequence[tuple[Any, Any]], scale: Any = None) -> None:
    """Says how gradients are gathered, and which ones are applied to which variables."""
    choice = _choice.get()
    if choice is not None:
        choice.how = how
        choice.scale = scale
        choice.gradients += [gradient for gradient, _ in grads_and_vars]
        choice.variables += [variable for _, variable in grads_and_vars]
