"""Declares what every engine does for the model that runs on it.

An *engine* runs the model's copies: as towers (`tower_engine`), on the cores of a TPU (`tpu`) or in
the replicas of a tf.distribute strategy (`distributed`). N is the number of copies. They are called
towers here, on every engine.
"""

from __future__ import annotations

import abc
from typing import Any, Callable, Sequence

from replicate.compat import seeds
from replicate.engines.per_tower import PerTower
from replicate.reduction import chosen


class Engine(abc.ABC):
    """Communication between the towers of one engine, as one tower sees it.

    Attributes:
        size: N, an integer.
        index: The index of this tower, 0 to N - 1: an integer, or, if one graph serves all towers,
            an object that converts to an int32 scalar tensor.
        checks_gradients: Whether the engine can end training when gradients are not finite.
        sees_all: Whether merge functions get the values of all towers.
    """

    size: int
    index: Any
    checks_gradients = False
    sees_all = True

    @abc.abstractmethod
    def mean_share(self, value: Any) -> Any:
        """Returns this tower's summand of the mean of `value`, a tensor, over towers."""

    @abc.abstractmethod
    def add(self, tensors: Sequence[Any], label: str) -> tuple[Sequence[Any], str]:
        """Adds up tensors over the towers.

        Values that a tower without rows computes from rows do not count.

        Args:
            tensors: List of this tower's tensors.
            label: Identifies these sums, a str; the same in all towers.

        Returns:
            The list of sums, through which no gradients pass, and a name for them, a str that is
            the same in all towers.
        """

    def counted(self, tensor: Any) -> Any:
        """Returns `tensor`, or zeros in a tower without rows, whose values do not count."""
        return tensor

    def loss_weight(self, dtype: Any) -> Any:
        """Returns the weight of this tower's loss in the loss of the whole batch.

        Returns:
            A scalar tensor of `dtype`; None if the losses of all towers have equal weight.
        """
        del dtype

    @abc.abstractmethod
    def meet(self, fn: Callable[..., Any], args: Sequence[Any], label: str) -> Any:
        """Calls the merge function `fn` once with the values of all towers.

        Args:
            fn: Function of one `PerTower` for each of `args`.
            args: This tower's values.
            label: Names the call in messages, and tells calls of different replicas apart, a str.

        Returns:
            The result of `fn`; if that is a `PerTower`, this tower's value.
        """

    def compute_gradients(self, optimizer: Any, loss: Any, args: Any, kwargs: Any) -> Any:
        """Returns the gradients of this tower's loss.

        Args:
            optimizer: The `TowerOptimizer`.
            loss: The loss, a tensor or a function that returns one.
            args: Further positional arguments of the wrapped optimizer's `compute_gradients`.
            kwargs: Its keyword arguments.

        Returns:
            List of `(gradient, variable)` pairs.
        """
        return optimizer.optimizer.compute_gradients(loss, *args, **kwargs)

    @abc.abstractmethod
    def apply_gradients(self, optimizer: Any, grads_and_vars: Any, args: Any, kwargs: Any) -> Any:
        """Sums gradients over towers, unless that is done already, and applies them.

        Args:
            optimizer: The `TowerOptimizer`.
            grads_and_vars: List of this tower's `(gradient, variable)` pairs.
            args: Further positional arguments of the wrapped optimizer's `apply_gradients`.
            kwargs: Its keyword arguments.

        Returns:
            The operation that applies them.
        """


class Alone(Engine):
    """Runs the model by itself: the only tower has the whole batch."""

    size = 1
    index = 0
    checks_gradients = True

    def mean_share(self, value: Any) -> Any:
        """Returns `value`."""
        return value

    def add(self, tensors: Sequence[Any], label: str) -> tuple[Sequence[Any], str]:
        """Returns `tensors`."""
        del label
        return tensors, ""

    def meet(self, fn: Callable[..., Any], args: Sequence[Any], label: str) -> Any:
        """Calls `fn` with `PerTower`s of one value."""
        del label
        result = fn(*(PerTower([arg]) for arg in args))
        return result.of_towers(1)[0] if isinstance(result, PerTower) else result

    def apply_gradients(self, optimizer: Any, grads_and_vars: Any, args: Any, kwargs: Any) -> Any:
        """Applies the gradients."""
        step = optimizer.step
        # Without towers, nothing crosses, so the graph gets no read of the scale.
        with seeds.uncounted():
            scale = step.communication_scale() if chosen.is_listening() else None
        chosen.say(step.how, grads_and_vars, scale)
        with optimizer.step.checked(grads_and_vars):
            return optimizer.step.apply(grads_and_vars, args, kwargs)
