"""Collects how the gradients of a model are to be reduced, while the model is built.

Towers, and the sums over them, are made after the model is built. So its `TowerOptimizer`s
announce their options here, and partitioning reads them.
"""

from __future__ import annotations

import contextlib
import contextvars
from typing import Any, Iterator, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.reduction.options import Reduction


class Choice:
    """Collects the announcements of optimizers.

    Attributes:
        how: The `Reduction` of the last optimizer.
        gradients: The gradients that were applied.
        variables: The variables that they were applied to.
        scale: Factor of gradients while they cross devices in float16, a scalar tensor; None for
            no factor, or if optimizers have different ones.
        losses: Losses that gradients were computed from.
        unscaling: Operations that divide gradients by the loss scale.
    """

    def __init__(self) -> None:
        self.how = Reduction()
        self.gradients: list[Any] = []
        self.variables: list[Any] = []
        self.scale: Any = None
        self.losses: list[Any] = []
        self.unscaling: set[Any] = set()


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
        # The scale of one optimizer may be too large for the gradients of another.
        is_same = not choice.gradients or scale is choice.scale
        choice.scale = scale if is_same else None
        choice.gradients += [gradient for gradient, _ in grads_and_vars]
        choice.variables += [variable for _, variable in grads_and_vars]


def say_loss(loss: Any) -> None:
    """Announces a loss whose gradients are going to be computed; functions are ignored."""
    choice = _choice.get()
    if choice is not None and isinstance(loss, tf.Tensor):
        choice.losses.append(loss)


@contextlib.contextmanager
def unscaling() -> Iterator[None]:
    """A scope whose operations divide gradients by the loss scale."""
    choice = _choice.get()
    if choice is None:
        yield
        return
    graph = tf.get_default_graph()
    before = graph_lib.count(graph)
    yield
    choice.unscaling.update(graph.get_operations()[before:])
