"""How the gradients of a model are reduced that is partitioned after it is built.

Its optimizers run as on one device. While they are built, they announce their options here.
"""

from __future__ import annotations

import contextlib
import contextvars
from typing import Any, Iterator, Sequence

from replicate.reduction.options import Reduction


class Choice:
    """Collects the announcements of optimizers.

    Attributes:
        how: The `Reduction` of the last optimizer.
        gradients: The gradients that were applied.
        variables: The variables that they were applied to.
        scale: Factor of gradients while they cross devices in float16, a scalar tensor; None for
            no factor.
    """

    def __init__(self) -> None:
        self.how = Reduction()
        self.gradients: list[Any] = []
        self.variables: list[Any] = []
        self.scale: Any = None


_choice: contextvars.ContextVar[Any] = contextvars.ContextVar("replicate_reduction", default=None)


@contextlib.contextmanager
def listening() -> Iterator[Choice]:
    """A scope that collects the announcements of optimizers; it yields the `Choice`."""
    choice = Choice()
    token = _choice.set(choice)
    try:
        yield choice
    finally:
        _choice.reset(token)


def is_listening() -> bool:
    """Whether a model is being built here that will be partitioned."""
    return _choice.get() is not None


def say(how: Reduction, grads_and_vars: Sequence[tuple[Any, Any]], scale: Any = None) -> None:
    """Announces how gradients are reduced, and which variables they are applied to.

    Args:
        how: The `Reduction`.
        grads_and_vars: The `(gradient, variable)` pairs that are applied.
        scale: As `Choice.scale`.
    """
    choice = _choice.get()
    if choice is not None:
        choice.how = how
        choice.scale = scale
        choice.gradients += [gradient for gradient, _ in grads_and_vars]
        choice.variables += [variable for _, variable in grads_and_vars]
