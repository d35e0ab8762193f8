"""What becomes of gradients once they are gathered, on every engine.

In this order: check that all is finite, transform, clip, apply. With accumulation, that follows
when enough batches have been added up.
"""

import contextlib
import numbers

import tensorflow.compat.v1 as tf

from replicate.batch import losses_are_added_up
from replicate.graphs import operations, run_if
from replicate.optimizer.accumulation import Accumulation
from replicate.optimizer.finite_check import only_if_finite
from replicate.optimizer.loss_scaling import update_from_reduced
from replicate.reduction import Reduction, collectives

_REDUCTIONS = (None, "mean", "sum")


class TrainingStep:
    """How gradients of the whole batch update variables.

    Args:
        wrapped: The `WrappedOptimizer`.
        clip_norm: As `TowerOptimizer` takes it.
        transform_gradients: Likewise.
        accumulate_steps: Likewise.
        accumulate_reduction: Likewise.
        check_finite: Likewise.
        reduction: Likewise.

    Raises:
        TypeError: If `transform_gradients` cannot be called, or `reduction` is something else.
        ValueError: If `clip_norm` is a number that is not positive, or no number,
            `accumulate_steps` no positive integer, `accumulate_reduction` unknown, or a value of
            `reduction` none of its.
    """

    def __init__(
        self,
        wrapped,
        clip_norm,
        transform_gradients,
        accumulate_steps,
        accumulate_reduction,
        check_finite,
        reduction,
    ):
        if not (
            clip_norm > 0
            if isinstance(clip_norm, numbers.Real)
            else clip_norm is None or tf.is_tensor(clip_norm)
        ):
            raise ValueError(
                "`clip_norm` must be a positive number or scalar tensor, or None for no clipping, "
                f"but is {clip_norm!r}."
            )
        if transform_gradients is not None and not callable(transform_gradients):
            raise TypeError(
                "`transform_gradients` must be a function of a list of (gradient, variable) pairs, "
                f"or None, but is {transform_gradients!r}."
            )
        is_integer = isinstance(accumulate_steps, numbers.Integral)
        if isinstance(accumulate_steps, bool) or not is_integer or accumulate_steps < 1:
            raise ValueError(
                "`accumulate_steps` must be the number of batches that make an update, an integer "
                f"of at least 1, but is {accumulate_steps!r}. Pass e.g. 4, or 1 to update in each."
            )
        if accumulate_reduction not in _REDUCTIONS:
            raise ValueError(
                "`accumulate_reduction` must say how the losses of batches make that of one with "
                "all their rows, 'mean' or 'sum', or be None, but is "
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
        self._accumulations = {}  # In eager mode, in which the same gradients come every step.
        self.saved = wrapped.saved
        """What object-based checkpoints hold: the loss scale and what is accumulated."""

    @property
    def has_options(self):
        """Whether anything happens to gradients but that they are applied."""
        given = self._clip_norm, self._transform_gradients, self._check_finite or None
        return self.accumulates or any(option is not None for option in given)

    @property
    def accumulates(self):
        """Whether gradients are added up over batches."""
        return self._accumulate_steps > 1

    @property
    def checks(self):
        """Whether gradients that are not finite are an error."""
        return self._check_finite and not self.may_skip

    def checked(self, grads_and_vars):
        """Returns a scope whose operations fail if gradients are to be finite, and are not.

        Args:
            grads_and_vars: The list of `(gradient, variable)` pairs, of the whole batch.
        """
        if not self.checks:
            return contextlib.nullcontext()
        return only_if_finite(grads_and_vars)

    def communication_scale(self):
        """Returns what gradients are multiplied by while they cross devices in float16, or None."""
        scale = self._wrapped.loss_scale
        return None if scale is None or self.how.communication_dtype != tf.float16 else scale()

    def apply(self, grads_and_vars, args, kwargs):
        """Applies gradients of the whole batch, or accumulates them.

        Args:
            grads_and_vars: List of `(gradient, variable)` pairs, gathered from all towers.
            args: What the wrapped optimizer's `apply_gradients` takes besides.
            kwargs: Likewise.

        Returns:
            What `update` does.
        """
        if not self.accumulates:
            return self.update(grads_and_vars, args, kwargs)
        accumulation = self.accumulation(grads_and_vars, losses_are_added_up())
        accumulation.prepare(grads_and_vars)

        def update(count):
            return self.update(accumulation.read(count), args, kwargs)

        return accumulation.every(accumulation.add(grads_and_vars), update)

    def accumulation(self, grads_and_vars, summed, **makes):
        """Returns the `Accumulation` for gradients that are to be added up.

        Args:
            grads_and_vars: List of their `(gradient, variable)` pairs, of one tower.
            summed: Whether losses of towers are added up, instead of averaged; so are those of
                batches, unless `accumulate_reduction` says.
            **makes: What it makes variables with.
        """
        if self._accumulate_reduction is not None:
            summed = self._accumulate_reduction == "sum"
        with tf.init_scope():
            if not tf.executing_eagerly():
                return Accumulation(self._accumulate_steps, summed, **makes)
        key = tuple(id(variable) for _, variable in grads_and_vars)
        if key not in self._accumulations:
            made = self._accumulations[key] = Accumulation(self._accumulate_steps, summed, **makes)
            number = len(self._accumulations) - 1
            setattr(self.saved, f"accumulation_{number}" if number else "accumulation", made.saved)
        return self._accumulations[key]

    def update(self, grads_and_vars, args, kwargs):
        """Updates with gradients of the whole batch, unless a loss scale finds them not finite.

        Args:
            grads_and_vars: List of `(gradient, variable)` pairs, gathered from all towers and
                batches.
            args: What the wrapped optimizer's `apply_gradients` takes besides.
            kwargs: Likewise.

        Returns:
            What the wrapped optimizer does; if the update may be skipped, an operation.
        """
        return self.if_finite(grads_and_vars, lambda: self.apply_now(grads_and_vars, args, kwargs))

    def if_finite(self, grads_and_vars, apply):
        """Calls `apply` for the steps that the loss scale does not skip, and adjusts the scale.

        Args:
            grads_and_vars: As `update` takes them.
            apply: Function without arguments that returns what is to run.

        Returns:
            What `apply` does; if steps may be skipped, an operation.
        """
        if not self.may_skip:
            return apply()
        grads = [gradient for gradient, _ in grads_and_vars]
        rescale, is_finite = update_from_reduced(self._wrapped.loss_scale, grads)
        return tf.group(operations([rescale, run_if(is_finite, apply)]))

    def apply_now(self, grads_and_vars, args, kwargs):
        """Transforms and applies gradients; takes and returns what `update` does."""
        apply = self._wrapped.optimizer.apply_gradients
        return apply(self.transform(grads_and_vars), *args, **kwargs)

    @property
    def may_skip(self):
        """Whether steps are skipped whose gradients are not finite."""
        return self._wrapped.may_skip

    def transform(self, grads_and_vars):
        """Returns gradients as they are to be applied.

        Args:
            grads_and_vars: List of `(gradient, variable)` pairs, gathered from all towers.

        Returns:
            List of `(gradient, variable)` pairs.
        """
        if self._transform_gradients is not None:
            grads_and_vars = list(self._transform_gradients(grads_and_vars))
        if self._clip_norm is not None:
            grads = [collectives.with_unique_rows(gradient) for gradient, _ in grads_and_vars]
            clipped, _ = tf.clip_by_global_norm(grads, self._clip_norm)
            grads_and_vars = [(g, variable) for g, (_, variable) in zip(clipped, grads_and_vars)]
        return grads_and_vars

    @property
    def transforms(self):
        """Whether `transform` changes gradients."""
        return self._transform_gradients is not None or self._clip_norm is not None
