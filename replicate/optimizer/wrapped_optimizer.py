"""The optimizer and the loss scale in a `TowerOptimizer`, which may differ by graph."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import keras, mixed_precision, tpu
from replicate.graphs import Eager, GraphLocal, graph_here, graph_of_variables
from replicate.optimizer import loss_scaling
from replicate.reduction import chosen


class _Wrapped(NamedTuple):
    optimizer: Any
    loss_scale: Any  # A `LossScale`; None if there is none; 'dynamic' if it is not made yet.
    scaling: Any  # The optimizer around it that scales losses, None if there is none.


class WrappedOptimizer:
    """An optimizer, or a function that makes one for each graph, and its loss scale.

    Args:
        given: The optimizer or function.
        loss_scale: As `loss_scale_of` takes it.
        accumulates: Whether some steps only accumulate gradients.
        loss_scale_of: `replicate.loss_scale.get`, passed in so that this module need not import it.

    Raises:
        TypeError: If `given` is not and does not make an optimizer.
        ValueError: If `loss_scale` is invalid, or the wrapped optimizer already has one; or if
            steps would be skipped and the optimizer is a `SyncReplicasOptimizer`, which needs all.
    """

    def __init__(
        self,
        given: Any,
        loss_scale: Any,
        accumulates: bool,
        loss_scale_of: Callable[[Any], Any],
    ) -> None:
        # A dynamic scale is made at its first use, because its variables belong to a graph.
        is_dynamic = isinstance(loss_scale, str) and loss_scale == "dynamic"
        self._loss_scale_of = loss_scale_of
        self._loss_scale = loss_scale if is_dynamic else loss_scale_of(loss_scale)
        self._accumulates = accumulates
        is_factory = callable(given) and not _is_optimizer(given)
        self._given: Any = given if is_factory else self._unwrap(given)
        # By graph, because a factory's optimizer may hold tensors, and because after
        # `apply_gradients` all replicas in a graph give access to the optimizer of replica 0.
        self._by_graph = GraphLocal()
        self.saved = tf.Module()
        """The state for object-based checkpoints, without that of the optimizer."""
        # A dynamic scale is saved when it is made, in `_dynamic_scale`.
        if not is_factory and not isinstance(self._given.loss_scale, (str, type(None))):
            self.saved.loss_scale = self._given.loss_scale
        self._dynamic = GraphLocal()

    @property
    def given(self) -> Any:
        """The optimizer that all graphs share at first, None if a function makes one for each."""
        return self._given.optimizer if isinstance(self._given, _Wrapped) else None

    @property
    def optimizer(self) -> Any:
        """The optimizer; after `apply_gradients`, the one that applied the gradients."""
        return self._wrapped().optimizer

    @property
    def loss_scale(self) -> Any:
        """The `LossScale`, None if losses are not scaled."""
        scale = self._wrapped().loss_scale
        return self._dynamic_scale() if isinstance(scale, str) else scale

    @property
    def keras_class(self) -> type | None:
        """The class of the optimizer if it is one of Keras 2, else None.

        A function that makes optimizers is not called for this. If it is itself a class, that is
        the class.
        """
        made = self._by_graph.get(graph_here(), self._given)
        return keras.class_of(made.optimizer if isinstance(made, _Wrapped) else made)

    @property
    def scales(self) -> bool:
        """Whether losses are scaled."""
        return self._wrapped().loss_scale is not None

    @property
    def may_skip(self) -> bool:
        """Whether the loss scale skips steps whose gradients are not finite."""
        return _skips(self._wrapped().loss_scale)

    def scaled(self, loss: Any) -> Any:
        """Returns `loss` times the loss scale, if there is one."""
        chosen.say_loss(loss)
        scale = self.loss_scale
        return loss if scale is None else loss_scaling.scaled(loss, scale())

    def unscaled(self, grads: list[Any]) -> list[Any]:
        """Returns the list of `grads` divided by the loss scale, if there is one."""
        scale = self.loss_scale
        if scale is None:
            return grads
        value = scale()
        with chosen.unscaling():
            return [loss_scaling.unscaled(gradient, value) for gradient in grads]

    def attribute(self, name: str) -> Any:
        """Returns an attribute of the optimizer, or of the one around it that scales losses.

        Raises:
            AttributeError: If neither has it.
        """
        wrapped = self._wrapped()
        try:
            return getattr(wrapped.optimizer, name)
        except AttributeError:
            if name.startswith("_") or not hasattr(wrapped.scaling, name):
                raise
        return getattr(wrapped.scaling, name)

    def answer_as(self, first: WrappedOptimizer) -> None:
        """Replaces this graph's optimizer by that of another `WrappedOptimizer`."""
        self._by_graph[graph_here()] = first._wrapped()

    def _wrapped(self) -> _Wrapped:
        graph = graph_here()
        if isinstance(self._given, _Wrapped):
            # In replicas, another optimizer may answer for this one; see `answer_as`.
            return self._by_graph.get(graph, self._given)
        if graph not in self._by_graph:
            self._by_graph[graph] = self._unwrap(self._given())
        return self._by_graph[graph]

    def _dynamic_scale(self) -> Any:
        graph = graph_of_variables()
        if graph not in self._dynamic:
            # Checkpoints must find the variables by the same names, whichever scope asks first.
            with tf.init_scope(), tf.name_scope(None):
                self._dynamic[graph] = self._loss_scale_of("dynamic")
                if graph is Eager:
                    self.saved.loss_scale = self._dynamic[graph]
        return self._dynamic[graph]

    def _unwrap(self, value: Any) -> _Wrapped:
        optimizer, scale = mixed_precision.without_loss_scale(value)
        scaling = None if scale is None else value
        optimizer = keras.as_optimizer(tpu.without_cross_shard(optimizer))
        if isinstance(getattr(optimizer, "_wrapped", None), WrappedOptimizer):
            raise TypeError(
                "`TowerOptimizer` reduces the gradients of all towers once, but got an optimizer "
                "that it wraps already. Wrap once."
            )
        if not _is_optimizer(optimizer):
            raise TypeError(
                "`TowerOptimizer` wraps an optimizer with `compute_gradients` and "
                "`apply_gradients`, or a function without arguments that makes one, but got "
                f"{value!r}. Pass e.g. `tf.train.AdamOptimizer(1e-3)`."
            )
        if scale is not None and self._loss_scale is not None:
            raise ValueError(
                "A loss is scaled once, but got `loss_scale` "
                f"{self._loss_scale!r} and an optimizer that scales losses, {value!r}. Leave one "
                "of them out."
            )
        if scale is None:
            scale = self._loss_scale
        elif isinstance(scale, float):
            scale = self._loss_scale_of(scale)
        leaves_out_steps = self._accumulates or _skips(scale)
        if leaves_out_steps and isinstance(optimizer, tf.train.SyncReplicasOptimizer):
            raise ValueError(
                "A `SyncReplicasOptimizer` waits for the gradients of every step of every worker, "
                "but "
                + ("`accumulate_steps`" if self._accumulates else f"`loss_scale` {scale!r}")
                + " leaves steps out. Use `accumulate_steps=1` and a loss scale that is a number."
            )
        return _Wrapped(optimizer, scale, scaling)


class AnswersAsKeras:
    """Makes `isinstance` treat an object as an optimizer of Keras 2 if its `_wrapped` wraps one.

    Canned Estimators and heads of TensorFlow 2 require this. `type()` is unchanged.
    """

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        wrapped = self.__dict__.get("_wrapped")
        return (None if wrapped is None else wrapped.keras_class) or type(self)

    def get_config(self: Any) -> dict[str, Any]:
        """Returns the wrapped optimizer's configuration, from which Keras makes a copy of it.

        Raises:
            ValueError: If there are options, which the copy would not have.
        """
        config = self._wrapped.attribute("get_config")
        if self.step.has_options or self._wrapped.scales:
            raise ValueError(
                "Keras copies an optimizer by `get_config`, which has no options of "
                "`TowerOptimizer`, but was called for one with options around "
                f"{self.get_name()}. Wrap one of `tf.train`, which Keras does not copy, or leave "
                "the options out."
            )
        return config()

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The default uses `__class__`.
        return _new, (type(self),), dict(self.__dict__)


def _new(cls: Any) -> Any:
    return cls.__new__(cls)


def _skips(scale: Any) -> bool:
    # `replicate.loss_scale.FixedLossScale` is registered as a subclass of this.
    return scale is not None and not isinstance(scale, tf.train.experimental.FixedLossScale)


def _is_optimizer(value: Any) -> bool:
    return (
        hasattr(value, "compute_gradients")
        and hasattr(value, "apply_gradients")
        and not isinstance(value, type)
    )
