"""`TowerOptimizer`: applies the gradients of all towers once, with options."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, Iterable, Tuple, TypeVar, Union

import tensorflow.compat.v1 as tf

from replicate import loss_scale as loss_scales
from replicate.clusters import SyncHook, check_not_synchronised
from replicate.compat import keras, renamed, saving
from replicate.engines import context
from replicate.optimizer import (
    AnswersAsKeras,
    SharesAttributes,
    TrainingStep,
    WrappedOptimizer,
    ancestor,
    overrides,
)
from replicate.reduction import Reduction

if TYPE_CHECKING:
    from typing import Literal  # Python 3.7 lacks it.

    Where = Literal["consolidation", "round_robin", "auto", "nccl"]
    Gradient = Union[tf.Tensor, tf.IndexedSlices, None]
    Pair = Tuple[Gradient, tf.Variable]
    AnyLoss = Union[tf.Tensor, Callable[[], tf.Tensor]]  # In eager mode, a function.
    Loss = TypeVar("Loss", bound=AnyLoss)


class TowerOptimizer(AnswersAsKeras, SharesAttributes, ancestor.Ancestor, saving.Wrapper):
    """Wraps an optimizer so that all towers train one set of variables.

        optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer(1e-3))
        train_op = optimizer.minimize(loss, tf.train.get_global_step())

    `minimize` processes the gradient of the whole batch's loss in this order, as on one device:
    unscale, `check_finite`, accumulate, `transform_gradients`, clip to `clip_norm`, apply.
    `apply_gradients` takes unscaled gradients. In the program of one tower, with `per_tower=True`,
    it first sums those of all towers. If the wrapped optimizer belongs to Keras 2, this object
    passes `isinstance` checks for its class.

    In replicas, `apply_gradients` reduces unscaled gradients. After it, every replica gives access
    to slots and variables. Replicas of a TPU apply the mean of their gradients, a cross-replica
    sum. In replicas of tf.distribute, the wrapped optimizer sums gradients and applies them as it
    does without `TowerOptimizer`. There, an Estimator treats losses as means unless the last one of
    `tf.losses` or Keras is a sum; outside an Estimator, gradients are summed, and users scale them.
    An optimizer that overrides `apply_gradients` gets the gradients of the whole batch there; if
    the override assigns variables, as BERT's does, it runs once, in the cross-replica context.

    Args:
        optimizer_or_optimizer_fn: An optimizer, or a function without arguments that makes one. An
            optimizer has `compute_gradients` and `apply_gradients` as `tf.train.Optimizer` does, or
            is one of `tf.keras.optimizers.legacy`. A `tf.tpu.CrossShardOptimizer` is replaced by
            the optimizer in it, and so is one that scales losses, such as
            `tf.mixed_precision.MixedPrecisionLossScaleOptimizer`, with its scale as `loss_scale`.
        clip_norm: Largest global norm of the gradient that is applied, a positive, finite number or
            scalar tensor, in units of the gradient of the whole batch's loss. Slices of a sparse
            gradient that belong to the same row are summed first. None: no clipping.
        transform_gradients: Function from the list of `(gradient, variable)` pairs, summed over all
            towers, to the list to apply. A gradient is a tensor, a `tf.IndexedSlices` or None.
            None: no transformation.
        loss_scale: Factor of losses while gradients are computed, for models that compute in
            float16: a number, `'dynamic'`, or another argument of `replicate.loss_scale.get`. A
            dynamic one skips a step if the summed gradient is not finite: neither the global step
            nor anything else that `apply_gradients` changes advances. None: no scale.
        accumulate_steps: Number of batches in an update, an integer. Their gradients are summed and
            applied like that of one batch that holds all their rows, in equal parts. The global
            step counts updates.
        accumulate_reduction: How the losses of these batches combine: `'mean'`, or `'sum'` for
            losses that are sums over rows. None: like those of towers with `per_tower`, on TPU
            cores and in replicas of tf.distribute; else `'mean'`.
        check_finite: Whether a gradient that is not finite ends training, before the update, with a
            `tf.errors.InvalidArgumentError` that names the variables. No variable or checkpoint
            gets such a value. A dynamic loss scale skips such steps instead. For towers, and for a
            model that runs without them.
        reduction: How gradients cross devices, and which devices sum them: a `replicate.Reduction`,
            or a value of its field `where`, such as `'round_robin'`. The result is the same, except
            for rounding if gradients cross in half precision.

    Raises:
        TypeError: If `optimizer_or_optimizer_fn` is not and does not make an optimizer, or if that
            is a `TowerOptimizer`; if `transform_gradients` cannot be called; if `reduction` is of
            another type.
        ValueError: If `clip_norm` is neither a positive, finite number nor a tensor; if
            `loss_scale` is invalid, or the wrapped optimizer already has one; if `accumulate_steps`
            is not a positive integer; if `accumulate_reduction` is unknown; if a field of
            `reduction` is invalid; if a `SyncReplicasOptimizer` would skip steps; if a
            `CrossShardOptimizer` does not take the mean over all replicas.
    """

    @renamed.arguments("TowerOptimizer", gather="reduction")
    def __init__(
        self,
        optimizer_or_optimizer_fn: tf.train.Optimizer | Callable[[], tf.train.Optimizer] | Any,
        *,
        clip_norm: float | tf.Tensor | None = None,
        transform_gradients: Callable[[list[Pair]], Iterable[Pair]] | None = None,
        loss_scale: float | Literal["dynamic"] | loss_scales.AnyLossScale | None = None,
        accumulate_steps: int = 1,
        accumulate_reduction: Literal["mean", "sum"] | None = None,
        check_finite: bool = False,
        reduction: Where | Reduction = "consolidation",
    ) -> None:
        super().__init__(use_locking=False, name="TowerOptimizer")
        wrapped = WrappedOptimizer(
            optimizer_or_optimizer_fn, loss_scale, accumulate_steps != 1, loss_scales.get
        )
        self.step = TrainingStep(
            wrapped,
            clip_norm,
            transform_gradients,
            accumulate_steps,
            accumulate_reduction,
            check_finite,
            reduction,
        )
        """The processing of gradients after they are reduced; for engines."""
        self.averages_losses: bool | None = None
        """Whether losses were means when gradients were computed, None if unknown; for engines."""
        self._wrapped = wrapped  # From now on, this object shares the optimizer's attributes.
        self.stand_for(wrapped.given, self.step.saved)

    @property
    def optimizer(self) -> tf.train.Optimizer:
        """The wrapped optimizer; after `apply_gradients`, the one that applied the gradients."""
        return self._wrapped.optimizer

    @property
    def loss_scale(self) -> loss_scales.AnyLossScale | None:
        """The `LossScale` that multiplies losses, None if there is none."""
        return self._wrapped.loss_scale

    def minimize(self, loss: AnyLoss, *args: Any, **kwargs: Any) -> tf.Operation:
        """Computes and applies gradients; takes the arguments of the wrapped optimizer's.

        Returns:
            The operation that applies the gradients.

        Raises:
            TypeError: If the wrapped optimizer overrides this, and does not apply gradients.
            ValueError: If no variable has a gradient.
        """
        if overrides.minimizes(self.optimizer):
            methods = {
                "compute_gradients": self.compute_gradients,
                "apply_gradients": self.apply_gradients,
            }
            return overrides.call(self.optimizer, "minimize", methods, loss, *args, **kwargs)
        given = inspect.signature(super().minimize).bind(loss, *args, **kwargs).arguments
        applied = {key: given.pop(key) for key in ("global_step", "name") if key in given}
        grads_and_vars = self.compute_gradients(**given)
        if not any(gradient is not None for gradient, _ in grads_and_vars):
            raise ValueError(
                "At least one variable must have a gradient, but none of "
                f"{[variable.name for _, variable in grads_and_vars]} has one for loss {loss}. "
                "Check that the loss depends on them through differentiable operations."
            )
        return self.apply_gradients(grads_and_vars, **applied)

    def compute_gradients(self, loss: AnyLoss, *args: Any, **kwargs: Any) -> list[Pair]:
        """Returns the gradients of the loss; in the program of one tower, those of that tower.

        Args:
            loss: Scalar tensor.
            *args: As the wrapped optimizer takes them, e.g. `var_list`.
            **kwargs: Likewise.

        Returns:
            List of `(gradient, variable)` pairs, unscaled, neither transformed nor clipped.
        """
        pairs = list(context.engine().compute_gradients(self, self.scale_loss(loss), args, kwargs))
        grads = self.unscale([gradient for gradient, _ in pairs])
        return [(gradient, variable) for gradient, (_, variable) in zip(grads, pairs)]

    def scale_loss(self, loss: Loss) -> Loss:
        """Returns `loss` times the loss scale, for gradients that are computed by hand.

            grads = tf.gradients(optimizer.scale_loss(loss), variables)
            train_op = optimizer.apply_gradients(zip(optimizer.unscale(grads), variables))

        Args:
            loss: Scalar tensor of floats, or a function that returns one.

        Returns:
            A tensor of the same type, or a function that returns one; `loss` if there is no scale.
        """
        return self._wrapped.scaled(loss)

    def unscale(self, grads: Iterable[Gradient]) -> list[Gradient]:
        """Returns gradients of a scaled loss divided by the loss scale.

        Args:
            grads: List of tensors, `tf.IndexedSlices` and None.

        Returns:
            List of the divided gradients, with their types; None for None.

        Raises:
            TypeError: If one of `grads` is a `(gradient, variable)` pair.
        """
        grads = list(grads)
        for gradient in grads:
            if isinstance(gradient, (list, tuple)):
                raise TypeError(
                    f"`unscale` takes a list of gradients, but one is {gradient!r}. Leave out the "
                    "variables: `optimizer.unscale([gradient for gradient, _ in grads_and_vars])`."
                )
        return self._wrapped.unscaled(grads)

    # The names of these methods in Keras' `LossScaleOptimizer`.
    get_scaled_loss = scale_loss
    get_unscaled_gradients = unscale

    def apply_gradients(
        self, grads_and_vars: Iterable[Pair], *args: Any, **kwargs: Any
    ) -> tf.Operation:
        """Applies gradients of the whole batch; in programs of one tower, sums them before.

        Args:
            grads_and_vars: Iterable of `(gradient, variable)` pairs, such as a `zip`; read once.
            *args: As the wrapped optimizer takes them, e.g. `global_step`; replica 0's are used.
            **kwargs: Likewise.

        Returns:
            The operation that applies the gradients, the same in every replica.

        Raises:
            RuntimeError: If this is called in the body of a `tf.cond`, `tf.while_loop` or function,
                or in the cross-replica context of tf.distribute, or if replicas do not apply the
                same optimizers in the same order.
            TypeError: If a gradient is neither a tensor nor `tf.IndexedSlices` nor None.
            ValueError: If a `SyncReplicasOptimizer` wraps this optimizer, or if `check_finite` is
                set in replicas of a TPU or of tf.distribute.
        """
        grads_and_vars = list(grads_and_vars)
        check_not_synchronised(grads_and_vars)
        engine = context.engine()
        if self.step.checks and not engine.checks_gradients:
            raise ValueError(
                "`check_finite` is for towers, and for a model that runs without them, but this "
                "one runs in replicas of a TPU or of tf.distribute. Leave it out, or skip such "
                "steps with `loss_scale='dynamic'`."
            )
        ancestor.remember_use()
        return engine.apply_gradients(self, grads_and_vars, args, kwargs)

    def make_session_run_hook(
        self, is_chief: bool, num_tokens: int | None = None
    ) -> tf.train.SessionRunHook:
        """Returns the session hook that a wrapped `tf.train.SyncReplicasOptimizer` needs.

            hook = optimizer.make_session_run_hook(config.is_chief)
            return EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

        Args:
            is_chief: Whether this worker is the chief of the cluster, as `RunConfig` says.
            num_tokens: See `replicate.clusters.sync.SyncHook`. None: the fewest that cannot block.

        Raises:
            AttributeError: If the wrapped optimizer has no such hook.
        """
        if isinstance(self.optimizer, tf.train.SyncReplicasOptimizer):
            return SyncHook(self.optimizer, is_chief, num_tokens)
        given = () if num_tokens is None else (num_tokens,)
        return self.optimizer.make_session_run_hook(is_chief, *given)

    def get_updates(self, loss: AnyLoss, params: list[tf.Variable]) -> list[tf.Operation]:
        """Computes and applies gradients of `loss`, a scalar, as optimizers of Keras 2 do.

        Returns:
            List with the operation that applies the gradients.

        Raises:
            TypeError: If the wrapped optimizer overrides this, and does not apply gradients.
        """
        updating = keras.updating(self.optimizer)
        if updating is not None:

            def get_gradients(loss: AnyLoss, params: list[tf.Variable]) -> list[Gradient]:
                return [grad for grad, _ in self.compute_gradients(loss, var_list=params)]

            methods: dict[str, Any] = {
                "get_gradients": get_gradients,
                "apply_gradients": self.apply_gradients,
            }
            return overrides.call(updating, "get_updates", methods, loss, params)
        return [self.apply_gradients(self.compute_gradients(loss, var_list=params))]

    def answer_as(self, first: TowerOptimizer) -> None:
        """Makes this optimizer give the state of another replica's optimizer; engines call it.

        Args:
            first: The `TowerOptimizer` of replica 0.
        """
        self._wrapped.answer_as(first._wrapped)
