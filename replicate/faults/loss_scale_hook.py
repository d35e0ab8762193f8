"""An error in place of training that skips every step from here on.

At its least, 1, a dynamic loss scale cannot be lowered any more: if gradients still are not finite,
no step updates anything, and the global step never gets to where training ends.
"""

import tensorflow.compat.v1 as tf

from replicate.faults.accumulation_hook import COUNTERS

_VARIABLES = "replicate/loss_scales"

LIMIT = 100
"""After how many skipped updates in a row, all at the least scale, training ends."""


def watch(variables):
    """Lets the hook of this graph know of a dynamic loss scale.

    Args:
        variables: Its scale, and the variable of how many steps in a row were finite.
    """
    with tf.init_scope():
        if not tf.executing_eagerly():
            for variable in variables:
                tf.add_to_collection(_VARIABLES, variable)


def end_stalled(spec):
    """Returns a spec with which training ends when all steps are skipped.

    Args:
        spec: An `EstimatorSpec`, made in the current graph.
    """
    variables = tf.get_collection(_VARIABLES)
    if not variables:
        return spec
    return spec._replace(training_hooks=(*spec.training_hooks, _StalledHook(variables)))


class _StalledHook(tf.train.SessionRunHook):
    """Counts skipped updates at the least scale."""

    def __init__(self, variables):
        # Of each loss scale the scale itself, and how many steps in a row were finite.
        self._pairs = list(zip(variables[::2], variables[1::2]))
        self._counters = tf.get_collection(COUNTERS)
        self._counted = 0
        self._skipped = 0

    def before_run(self, run_context):
        """Asks for the scales."""
        return tf.train.SessionRunArgs((self._pairs, self._counters))

    def after_run(self, run_context, run_values):
        """Raises if the last updates were all skipped."""
        pairs, counters = run_values.results
        # They are read before or after the step counts, so an update shows by a lower count.
        counted, self._counted = self._counted, sum(counters)
        if self._counters and self._counted >= counted:
            return
        stalled = any(scale <= 1 and finite == 0 for scale, finite in pairs)
        self._skipped = self._skipped + 1 if stalled else 0
        if self._skipped > LIMIT:
            raise RuntimeError(
                "Steps whose gradients are not finite are skipped, but by now each one is: of the "
                f"last {LIMIT}, none was finite, with the loss scale at its least, 1. Look at the "
                "data and the model: `check_finite=True`, in place of the loss scale, names the "
                "gradients. The last checkpoint has finite variables."
            )
