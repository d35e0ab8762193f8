"""The processing of gradients after they are reduced, the same on every engine.

In this order: check that they are finite (`check_finite`), accumulate, transform, clip, apply. The
first two happen in every step, the others in each step that completes an update, unless a dynamic
loss scale skips it.
"""

from __future__ import annotations

import contextlib
import numbers
from typing import Any, Callable, ContextManager, Iterable, Mapping, Sequence

import tensorflow.compat.v1 as tf

from replicate.batch import losses_are_added_up
from replicate.graphs import operations, run_if
from replicate.optimizer.accumulation import Accumulation
from replicate.optimizer.finite_check import only_if_finite
from replicate.optimizer.loss_scaling import update_from_reduced
from replicate.optimizer.wrapped_optimizer import WrappedOptimizer
from replicate.reduction import Reduction, collectives

_REDUCTIONS = (None, "mean", "sum")


class TrainingStep:
    """How gradients of the whole batch update variables.

    Args:
        wrapped: The `WrappedOptimizer`.
        clip_norm: See `TowerOptimizer`.
        transform_gradients: See `TowerOptimizer`.
        accumulate_steps: See `TowerOptimizer`.
        accumulate_reduction: See `TowerOptimizer`.
        check_finite: See `TowerOptimizer`.
        reduction: See `TowerOptimizer`.

    Raises:
        TypeError: If `transform_gradients` cannot be called, or `reduction` is of another type.
        ValueError: If `clip_norm` is neither a positive number that is finite in float32 nor a
            tensor, `accumulate_steps` is not a positive integer, `accumulate_reduction` is unknown,
            or a field of `reduction` is invalid.
    """

    def __init__(
        self,
        wrapped: WrappedOptimizer,
        clip_norm: Any,
        transform_gradients: Callable[[list[Any]], Iterable[Any]] | None,
        accumulate_steps: int,
        accumulate_reduction: str | None,
        check_finite: bool,
        reduction: Any,
    ) -> None:
        is_number = isinstance(clip_norm, numbers.Real)
        if not (
            0 < clip_norm <= float(tf.float32.max)  # An infinite one would make each gradient NaN.
            if is_number
            else clip_norm is None or tf.is_tensor(clip_norm)
        ):
            raise ValueError(
                "`clip_norm` must be a positive number that is finite in float32, a scalar tensor, "
                f"or None for no clipping, but is {clip_norm!r}."
            )
        if transform_gradients is not None and not callable(transform_gradients):
            raise TypeError(
                "`transform_gradients` must be a function of a list of (gradient, variable) pairs, "
                f"or None, but is {transform_gradients!r}."
            )
        is_integer = isinstance(accumulate_steps, numbers.Integral)
        # To Python, True is an integer of at least 1.
        if isinstance(accumulate_steps, bool) or not is_integer or accumulate_steps < 1:
            raise ValueError(
                "`accumulate_steps` must be the number of batches in an update, an integer of at "
                f"least 1, but is {accumulate_steps!r}. Pass e.g. 4, or 1 to update in each batch."
            )
        if accumulate_reduction not in _REDUCTIONS:
            raise ValueError(
                "`accumulate_reduction` must say how the losses of batches combine to that of one "
                "batch with all their rows, 'mean' or 'sum', or be None, but is "
                f"{accumulate_reduction!r}. Pass 'sum' for losses that are sums over rows."
            )
        self._wrapped = wrapped
        self._clip_norm = clip_norm
        self._transform_gradients = transform_gradients
        self._accumulate_steps = int(accumulate_steps)
        self._accumulate_reduction = accumulate_reduction
        self._check_finite = check_finite
        self.how = Reduction.of(reduction)
        """The `Reduction`."""
        # Only for eager mode, where every step gives the same variables.
        self._accumulations: dict[tuple[int, ...], Accumulation] = {}
        self.saved = wrapped.saved
        """The state for object-based checkpoints: the loss scale and accumulated gradients."""

    @property
    def has_options(self) -> bool:
        """Whether gradients are processed in any way before they are applied."""
        given = self._clip_norm, self._transform_gradients, self._check_finite or None
        return self.accumulates or any(option is not None for option in given)

    @property
    def accumulates(self) -> bool:
        """Whether gradients are summed over batches."""
        return self._accumulate_steps > 1

    @property
    def checks(self) -> bool:
        """Whether gradients that are not finite are an error."""
        # A dynamic loss scale expects such gradients now and then, and skips the step.
        return self._check_finite and not self.may_skip

    def checked(self, grads_and_vars: Sequence[tuple[Any, tf.Variable]]) -> ContextManager[None]:
        """Returns a scope whose operations fail if gradients are checked and not finite.

        Args:
            grads_and_vars: The list of `(gradient, variable)` pairs, of the whole batch.
        """
        if not self.checks:
            return contextlib.nullcontext()
        return only_if_finite(grads_and_vars)

    def communication_scale(self) -> Any:
        """Returns the factor of gradients that cross devices in float16, a scalar; or None."""
        scale = self._wrapped.loss_scale
        # bfloat16 has the range of float32, so its gradients need no factor.
        return None if scale is None or self.how.communication_dtype != tf.float16 else scale()

    def apply(
        self,
        grads_and_vars: list[tuple[Any, tf.Variable]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Applies gradients of the whole batch, or accumulates them.

        Args:
            grads_and_vars: List of `(gradient, variable)` pairs, summed over all towers.
            args: Further arguments of the wrapped optimizer's `apply_gradients`.
            kwargs: Further keyword arguments of it.

        Returns:
            The same as `update`.
        """
        if not self.accumulates:
            return self.update(grads_and_vars, args, kwargs)
        accumulation = self.accumulation(grads_and_vars, losses_are_added_up())
        accumulation.prepare(grads_and_vars)

        def update(count: tf.Tensor) -> Any:
            return self.update(accumulation.read(count), args, kwargs)

        return accumulation.every(accumulation.add(grads_and_vars), update)

    def accumulation(
        self,
        grads_and_vars: Sequence[tuple[Any, tf.Variable]],
        summed: bool,
        **makes: Callable[..., tf.Variable],
    ) -> Accumulation:
        """Returns the `Accumulation` for gradients that will be accumulated.

        Args:
            grads_and_vars: List of their `(gradient, variable)` pairs, of one tower.
            summed: Whether losses of towers are summed, instead of averaged. Those of batches are
                treated likewise, unless `accumulate_reduction` is given.
            **makes: The functions `make` and `make_counter` of `Accumulation`.
        """
        if self._accumulate_reduction is not None:
            summed = self._accumulate_reduction == "sum"
        # In a `tf.function`, variables belong to the eager context that calls it.
        with tf.init_scope():
            if not tf.executing_eagerly():
                return Accumulation(self._accumulate_steps, summed, **makes)
        key = tuple(id(variable) for _, variable in grads_and_vars)
        if key not in self._accumulations:
            made = self._accumulations[key] = Accumulation(self._accumulate_steps, summed, **makes)
            number = len(self._accumulations) - 1
            setattr(self.saved, f"accumulation_{number}" if number else "accumulation", made.saved)
        return self._accumulations[key]

    def update(
        self,
        grads_and_vars: list[tuple[Any, tf.Variable]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Updates with gradients of the whole batch, unless a loss scale finds them not finite.

        Args:
            grads_and_vars: List of `(gradient, variable)` pairs, summed over all towers and
                batches.
            args: Further arguments of the wrapped optimizer's `apply_gradients`.
            kwargs: Further keyword arguments of it.

        Returns:
            The result of the wrapped optimizer; if the update may be skipped, an operation.
        """
        return self.if_finite(grads_and_vars, lambda: self.apply_now(grads_and_vars, args, kwargs))

    def if_finite(
        self, grads_and_vars: Sequence[tuple[Any, tf.Variable]], apply: Callable[[], Any]
    ) -> Any:
        """Calls `apply` for the steps that the loss scale does not skip, and adjusts the scale.

        Args:
            grads_and_vars: As `update` takes them.
            apply: Function without arguments that returns the operations to run.

        Returns:
            The result of `apply`; if steps may be skipped, an operation.
        """
        if not self.may_skip:
            return apply()
        grads = [gradient for gradient, _ in grads_and_vars]
        rescale, is_finite = update_from_reduced(self._wrapped.loss_scale, grads)
        return tf.group(operations([rescale, run_if(is_finite, apply)]))

    def apply_now(
        self,
        grads_and_vars: list[tuple[Any, tf.Variable]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Transforms and applies gradients; arguments and result are those of `update`."""
        apply = self._wrapped.optimizer.apply_gradients
        return apply(self.transform(grads_and_vars), *args, **kwargs)

    @property
    def may_skip(self) -> bool:
        """Whether steps whose gradients are not finite are skipped."""
        return self._wrapped.may_skip

    def transform(self, grads_and_vars: list[tuple[Any, tf.Variable]]) -> list[Any]:
        """Returns transformed and clipped gradients.

        Args:
            grads_and_vars: List of `(gradient, variable)` pairs, summed over all towers.

        Returns:
            List of `(gradient, variable)` pairs.
        """
        if self._transform_gradients is not None:
            grads_and_vars = list(self._transform_gradients(grads_and_vars))
        if self._clip_norm is not None:
            # Slices of one row are one gradient: their sum counts in the norm, not each of them.
            grads = [collectives.with_unique_rows(gradient) for gradient, _ in grads_and_vars]
            clipped, _ = tf.clip_by_global_norm(grads, self._clip_norm)
            grads_and_vars = [(g, variable) for g, (_, variable) in zip(clipped, grads_and_vars)]
        return grads_and_vars

    @property
    def transforms(self) -> bool:
        """Whether `transform` changes gradients."""
        return self._transform_gradients is not None or self._clip_norm is not None
