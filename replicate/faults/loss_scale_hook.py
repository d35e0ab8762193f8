"""Raises an error when training skips every step.

A dynamic loss scale cannot fall below 1. If gradients are not finite even then, no step updates
anything, and the global step never reaches the end of training.

The scale alone does not tell: one that starts at 1 and was not used yet has the same state. And of
several optimizers, one may skip its steps while the others train. So the global step must stand
still as well.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.faults.accumulation_hook import COUNTERS

_VARIABLES = "replicate/loss_scales"

LIMIT = 100
"""Number of skipped updates in a row after which training ends.

All are at the minimum scale, and at the same global step.
"""


def watch(variables: Sequence[Any]) -> None:
    """Registers a dynamic loss scale with the hook of this graph.

    Args:
        variables: The scale, and the variable that counts consecutive steps that were finite.
    """
    with tf.init_scope():
        if not tf.executing_eagerly():
            for variable in variables:
                tf.add_to_collection(_VARIABLES, variable)


def end_stalled(spec: Any) -> Any:
    """Returns a spec that ends training when all steps are skipped.

    Args:
        spec: An `EstimatorSpec`, made in the current graph.
    """
    variables = tf.get_collection(_VARIABLES)
    if not variables:
        return spec
    return spec._replace(training_hooks=(*spec.training_hooks, _StalledHook(variables)))


class _StalledHook(tf.train.SessionRunHook):
    """Counts skipped updates at the minimum scale and at the same global step."""

    def __init__(self, variables: Sequence[Any]) -> None:
        # For each loss scale: the scale, and the number of consecutive steps that were finite.
        self._pairs = list(zip(variables[::2], variables[1::2]))
        self._counters = tf.get_collection(COUNTERS)
        self._counted = 0
        self._skipped = 0
        self._global_step: Any = None
        self._last_step: int | None = None

    def begin(self) -> None:
        """Finds the global step."""
        self._global_step = tf.train.get_global_step()

    def before_run(self, run_context: Any) -> Any:
        """Asks for the global step and the scales."""
        return tf.train.SessionRunArgs((self._global_step, self._pairs, self._counters))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Raises if the last updates were all skipped."""
        step, pairs, counters = run_values.results
        if step != self._last_step:
            self._last_step, self._skipped = step, 0
        # With accumulation, most steps update nothing. Whether the counters are read before or
        # after the step's increment is unknown, but after an update they are lower than before.
        counted, self._counted = self._counted, sum(counters)
        if self._counters and self._counted >= counted:
            return
        stalled = any(scale <= 1 and finite == 0 for scale, finite in pairs)
        self._skipped = self._skipped + 1 if stalled else 0
        if self._skipped > LIMIT:
            raise RuntimeError(
                "Steps whose gradients are not finite are skipped, but now every step is: none of "
                f"the last {LIMIT} was finite, with the loss scale at its minimum, 1. Look at the "
                "data and the model: `check_finite=True`, instead of the loss scale, names the "
                "gradients. The last checkpoint has finite variables."
            )
