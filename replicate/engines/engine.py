"""What every engine does for the model that runs on it.

An *engine* is what runs the model's copies: towers (`tower_engine`), the cores of a TPU (`tpu`) or
the replicas of a tf.distribute strategy (`distributed`). N is the number of copies, and whatever
the engine calls them, they are towers here.
"""

from __future__ import annotations

import abc
from typing import Any

from replicate.engines.per_tower import PerTower
from replicate.reduction import chosen


class Engine(abc.ABC):
    """How the towers of one engine meet, as this tower sees it.

    Attributes:
        size: N, an integer.
        index: The index of this tower, 0 to N - 1: an integer, or where one graph serves all
            towers, what converts to an int32 scalar tensor.
        checks_gradients: Whether it can end training at gradients that are not finite.
        sees_all: Whether merge functions get the values of all towers.
    """

    size: int
    index: Any
    checks_gradients = False
    sees_all = True

    @abc.abstractmethod
    def mean_share(self, value):
        """Returns this tower's part of the mean over towers of `value`, a tensor."""

    @abc.abstractmethod
    def add(self, tensors, label):
        """Adds up tensors over the towers.

        Where a tower has no rows, what it computes from them does not count.

        Args:
            tensors: List of this tower's tensors.
            label: Which sums these are; the same in all towers.

        Returns:
            The list of sums, through which no gradients pass, and a name for them that is the same
            in all towers.
        """

    def counted(self, tensor):
        """Returns `tensor`, times 0 where this tower has no rows, and its part in `add` is none."""
        return tensor

    def pending_weight(self, dtype):
        """Returns the weight of this tower's loss where a backward pass does not start from it.

        Returns:
            A scalar tensor of `dtype`; None where all losses count alike, or it does.
        """
        del dtype

    @abc.abstractmethod
    def meet(self, fn, args, label):
        """Calls the merge function `fn` once with the values of all towers.

        Args:
            fn: Function of one `PerTower` for each of `args`.
            args: This tower's values.
            label: What messages call it, and by which replicas' calls are told apart.

        Returns:
            What `fn` returns; of a `PerTower` this tower's value.
        """

    def compute_gradients(self, optimizer, loss, args, kwargs):
        """Returns the gradients of this tower's loss.

        Args:
            optimizer: The `TowerOptimizer`.
            loss: The loss.
            args: What the wrapped optimizer's `compute_gradients` takes besides.
            kwargs: Likewise.
        """
        return optimizer.optimizer.compute_gradients(loss, *args, **kwargs)

    @abc.abstractmethod
    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Gathers those gradients that are not of all towers yet, and applies them.

        Args:
            optimizer: The `TowerOptimizer`.
            grads_and_vars: List of this tower's `(gradient, variable)` pairs.
            args: What the wrapped optimizer's `apply_gradients` takes besides.
            kwargs: Likewise.
        """


class Alone(Engine):
    """The model by itself: the only tower there is has the whole batch."""

    size = 1
    index = 0
    checks_gradients = True

    def mean_share(self, value):
        """Returns `value`."""
        return value

    def add(self, tensors, label):
        """Returns `tensors`."""
        del label
        return tensors, ""

    def meet(self, fn, args, label):
        """Calls `fn` with `PerTower`s of one value."""
        del label
        result = fn(*(PerTower([arg]) for arg in args))
        return result.of_towers(1)[0] if isinstance(result, PerTower) else result

    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Applies the gradients."""
        chosen.say(optimizer.step.how, grads_and_vars)
        with optimizer.step.checked(grads_and_vars):
            return optimizer.step.apply(grads_and_vars, args, kwargs)
