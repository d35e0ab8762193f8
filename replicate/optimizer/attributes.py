"""Gives a `TowerOptimizer` the state and the attributes of the optimizer in it."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.optimizer.wrapped_optimizer import WrappedOptimizer


class SharesAttributes:
    """An object with the slots and variables of the optimizer in its `_wrapped`.

    Attributes that it does not have itself are those of the optimizer. So code finds what a user's
    optimizer has beside the methods of TensorFlow's, and sets what Keras' optimizers let it set,
    such as `learning_rate`.
    """

    _wrapped: WrappedOptimizer
    optimizer: Any

    @property
    def iterations(self) -> tf.Variable:
        """The step counter of an optimizer of Keras 2; it can be set to the global step."""
        return self.optimizer.iterations

    @iterations.setter
    def iterations(self, variable: tf.Variable) -> None:
        self.optimizer.iterations = variable

    def get_name(self) -> str:
        """Returns the wrapped optimizer's name."""
        optimizer = self.optimizer
        return optimizer.get_name() if hasattr(optimizer, "get_name") else type(optimizer).__name__

    def get_slot(self, var: tf.Variable, name: str) -> tf.Variable | None:
        """Returns slot `name` of variable `var`, None if it has none."""
        return self.optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Returns the names of the slots."""
        return self.optimizer.get_slot_names()

    def variables(self) -> list[tf.Variable]:
        """Returns the variables that hold the wrapped optimizer's state."""
        return self.optimizer.variables()

    def __getattr__(self, name: str) -> Any:
        # `_self_…` is TensorFlow's state of one object for checkpoints, never the wrapped one's.
        if name.startswith(("__", "_self_")) or "_wrapped" not in self.__dict__:
            raise AttributeError(name)
        return self.__dict__["_wrapped"].attribute(name)

    def __setattr__(self, name: str, value: Any) -> None:
        is_own = name.startswith("_") or hasattr(type(self), name) or name in self.__dict__
        wrapped = None if is_own else self.__dict__.get("_wrapped")
        if wrapped is None:
            super().__setattr__(name, value)
        else:
            setattr(wrapped.optimizer, name, value)
