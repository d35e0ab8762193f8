"""Adapts Keras' optimizers and batch norm to towers; uses private names of Keras."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import environment

# That of `replicate` only passes calls on to Keras' optimizers.
_LIBRARIES = ("tensorflow", "keras", "tf_keras", "replicate")
# Attributes that optimizers had before TensorFlow 2.4 if they clip; now they are properties.
_CLIPS = frozenset(["clipnorm", "clipvalue"])


class _LegacyOptimizer:
    """An optimizer of Keras 2, `OptimizerV2`, with the methods of a `tf.train.Optimizer`.

    Since TensorFlow 2.4, it clips gradients when it applies them, that is, after they are summed
    over towers.
    """

    def __init__(self, optimizer: Any) -> None:
        self.__dict__["_optimizer"] = optimizer

    def compute_gradients(
        self, loss: tf.Tensor, var_list: Any = None
    ) -> list[tuple[Any, tf.Variable]]:
        variables = tf.trainable_variables() if var_list is None else tf.nest.flatten(var_list)
        # Keras' own raises an error if a variable has no gradient. Before TensorFlow 2.4, it clips.
        is_changed = overrides(self._optimizer, "get_gradients") or not _CLIPS.isdisjoint(
            vars(self._optimizer)
        )
        compute = self._optimizer.get_gradients if is_changed else tf.gradients
        return list(zip(compute(loss, variables), variables))

    def apply_gradients(
        self, grads_and_vars: Any, global_step: tf.Variable | None = None, name: str | None = None
    ) -> tf.Operation:
        if global_step is not None:
            self._optimizer.iterations = global_step  # Applying gradients counts it up.
        return self._optimizer.apply_gradients(grads_and_vars, name=name)

    def get_name(self) -> str:
        return self._optimizer._name

    def __getattr__(self, name: str) -> Any:
        # Copying and pickling must not be delegated, and a copy has no optimizer at first.
        if name.startswith("__") or "_optimizer" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._optimizer, name, value)


def overrides(value: Any, method: str) -> bool:
    """Whether a method of an object is defined outside of TensorFlow, Keras and this library."""
    function = getattr(type(value), method, None)
    module = getattr(function, "__module__", "").partition(".")[0]
    return function is not None and module not in _LIBRARIES


def updating(optimizer: Any) -> Any:
    """Returns the optimizer of Keras 2 that overrides `get_updates`, None if it does not."""
    inner = vars(optimizer).get("_optimizer") if isinstance(optimizer, _LegacyOptimizer) else None
    return inner if overrides(inner, "get_updates") else None


def class_of(optimizer: Any) -> type | None:
    """Returns the class of an optimizer of Keras 2, given the optimizer or its class; else None."""
    if isinstance(optimizer, type):
        return optimizer if _is_legacy(optimizer) else None
    return type(optimizer._optimizer) if isinstance(optimizer, _LegacyOptimizer) else None


def check_updates(optimizer: Any) -> None:
    """Checks that an optimizer updates variables in a graph.

    Raises:
        TypeError: If it is one of the optimizers that TensorFlow 2.11 introduced.
    """
    if hasattr(optimizer, "update_step"):
        raise TypeError(
            f"Towers cannot train with {optimizer!r}: in a graph, as Estimators build them, Keras' "
            "optimizers since TensorFlow 2.11 count steps but update no variable. Take one of "
            "`tf.train`, or of `tf.keras.optimizers.legacy`."
        )


def as_optimizer(value: Any) -> Any:
    """Returns an optimizer of Keras 2 with the methods of `tf.train.Optimizer`; others unchanged.

    Raises:
        TypeError: If it is one of the optimizers that TensorFlow 2.11 introduced.
    """
    if isinstance(value, type) or not hasattr(value, "apply_gradients"):
        return value
    check_updates(value)
    return _LegacyOptimizer(value) if _is_legacy(value) else value


def _is_legacy(value: object) -> bool:
    return hasattr(value, "get_updates") and not hasattr(value, "compute_gradients")


class _NoLayer:
    """Replaces a layer if there is no Keras 2; its constructor raises an error with the remedy."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        environment.check_estimator()


def _batch_normalization() -> type:
    """Returns `tf.layers.BatchNormalization`; without Keras 2 `_NoLayer`, so that imports work."""
    try:
        return tf.layers.BatchNormalization
    except (AttributeError, ImportError):
        return _NoLayer


_Base: Any = _batch_normalization()


class BatchNormalization(_Base):
    """`tf.layers.BatchNormalization`, with the moments of a batch as `moments` computes them.

    A subclass defines `moments(inputs, axes, mask)`. It returns mean and variance of the tensor
    `inputs` over the list of dimensions `axes`, which have size 1 in both results. `mask` is None,
    or a tensor of weights of `inputs`, to which a last dimension must be added. `moments` is not
    called if `fused` is true or `training` false, and never in the body of a `tf.cond`.
    """

    def _calculate_mean_and_var(
        self,
        inputs: tf.Tensor,
        reduction_axes: Sequence[int],
        keep_dims: bool,
        mask: tf.Tensor | None = None,
    ) -> Sequence[tf.Tensor]:
        moments = self.moments(inputs, reduction_axes, mask)
        return moments if keep_dims else [tf.squeeze(value, reduction_axes) for value in moments]

    def _moments(
        self, inputs: tf.Tensor, reduction_axes: Sequence[int], keep_dims: bool, **kwargs: Any
    ) -> Sequence[tf.Tensor]:
        if hasattr(super(), "_calculate_mean_and_var"):
            return super()._moments(inputs, reduction_axes, keep_dims, **kwargs)
        return self._calculate_mean_and_var(inputs, reduction_axes, keep_dims)  # TensorFlow 1.15.
