"""Which summary a hook of TensorFlow's saves has no public name."""

import tensorflow.compat.v1 as tf


def save_others(hooks, others):
    """Lets each `tf.train.SummarySaverHook` save other summaries than the ones that it was given.

    Args:
        hooks: Iterable of hooks.
        others: List of pairs of a tensor and the tensor to save in its place.
    """
    for hook in hooks:
        if isinstance(hook, tf.train.SummarySaverHook):
            hook._summary_op = tf.nest.map_structure(
                lambda given: other_of(given, others), hook._summary_op
            )


def other_of(given, others):
    """Returns what stands in the place of `given`, itself if nothing does."""
    for tensor, other in others:
        if given is tensor:
            return other
    return given
