"""Scalars of a search for TensorBoard and its progress bar, on every engine.

A *tag* is the name under which TensorBoard shows a scalar.
"""

import tensorflow.compat.v1 as tf

from examples.runs import summaries

# Where a progress bar finds scalars by name, e.g. `search/progress/reward:0`.
PROGRESS_SCOPE = "search/progress/"
_PROGRESS_TAGS = ("reward", "validation_accuracy", "entropy", "estimated_cost", "cost_ratio")


def logits(prefix, logits_by_name):
    """Returns `{prefix/name/i: scalar}` of a dict of logits, float32 vectors by name."""
    return {
        f"{prefix}/{name}/{index}": logit
        for name, vector in logits_by_name.items()
        for index, logit in enumerate(tf.unstack(vector))
    }


def make_spec(mode, loss, train_op, scalars, params):
    """Returns the spec of a step of a search, which reports scalars.

    Arguments and result are those of `examples.runs.summaries.make_spec`. On towers, scalars of
    progress bars are also found under `PROGRESS_SCOPE`.
    """
    if not params["use_tpu"]:
        with tf.name_scope(PROGRESS_SCOPE):
            for tag, scalar in scalars.items():
                prefix, _, name = tag.partition("/")
                # If there are several costs, each has a scalar like `estimated_cost/madds`.
                if prefix == "rlcontroller" and name.split("/")[0] in _PROGRESS_TAGS:
                    tf.identity(scalar, name=name)
    return summaries.make_spec(mode, loss, train_op, scalars, params)
