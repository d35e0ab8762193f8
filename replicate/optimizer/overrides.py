"""Lets a method that a user's optimizer overrides call the `TowerOptimizer` around it.

An optimizer may override `minimize`, or the `get_updates` of Keras 2, to add penalties or to take
further arguments. Such a method calls `self.compute_gradients` and `self.apply_gradients`, mostly
by way of `super()`. While it runs, these are the methods of the `TowerOptimizer`; and while these
run, they are the optimizer's own again.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import tensorflow.compat.v1 as tf


def minimizes(optimizer: Any) -> bool:
    """Whether an optimizer has a `minimize` that is not that of `tf.train.Optimizer`."""
    function = getattr(type(optimizer), "minimize", None)
    return function is not None and function is not tf.train.Optimizer.minimize


def call(
    optimizer: Any, name: str, methods: Mapping[str, Callable[..., Any]], *args: Any, **kwargs: Any
) -> Any:
    """Calls a method of an optimizer, with others of its methods replaced.

    Args:
        optimizer: The optimizer.
        name: The name of the method.
        methods: Functions by the names of the methods that they replace.
        *args: Arguments of the method.
        **kwargs: Likewise.

    Returns:
        The result of the method.

    Raises:
        TypeError: If the method does not call `apply_gradients`, so that it changes variables
            without the options of the `TowerOptimizer`.
    """
    attributes = vars(optimizer)
    own = {one: attributes[one] for one in methods if one in attributes}
    called = set()

    def restore() -> None:
        for one in methods:
            attributes.pop(one, None)
        attributes.update(own)

    def instead_of(one: str) -> Callable[..., Any]:
        def method(*args: Any, **kwargs: Any) -> Any:
            called.add(one)
            restore()
            try:
                return methods[one](*args, **kwargs)
            finally:
                attributes.update(replaced)

        return method

    replaced = {one: instead_of(one) for one in methods}
    attributes.update(replaced)
    try:
        result = getattr(optimizer, name)(*args, **kwargs)
    finally:
        restore()
    if "apply_gradients" not in called:
        raise TypeError(
            f"`TowerOptimizer` processes the gradients that `apply_gradients` gets, but "
            f"`{type(optimizer).__name__}.{name}` does not call `self.apply_gradients`. Let it do "
            "so, or leave `TowerOptimizer` out: any optimizer trains in towers without it."
        )
    return result
