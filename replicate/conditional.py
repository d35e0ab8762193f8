"""Runs something in some steps only."""

import tensorflow.compat.v1 as tf


def run_if(condition, fn):
    """Runs what `fn` makes in those steps in which `condition` holds.

    Args:
        condition: Boolean scalar tensor, or True.
        fn: Function without arguments. It returns a nested structure of what is to run.

    Returns:
        An operation, which has run when all that `fn` returned has, or need not; None in eager
        mode. If `condition` is True, what `fn` returns.
    """
    if condition is True:
        return fn()

    def run():
        # A tensor, because what waits for an `If` itself does not wait for all of its branch.
        with tf.control_dependencies(operations(fn())):
            return tf.identity(True)

    ran = tf.cond(condition, run, lambda: tf.identity(False))
    return None if tf.executing_eagerly() else tf.group(tf.identity(ran))


def operations(value):
    """Returns the list of operations and tensors in a nested structure; in eager mode, none."""
    if tf.executing_eagerly():
        return []
    leaves = tf.nest.flatten(value, expand_composites=True)
    return [leaf for leaf in leaves if isinstance(leaf, tf.Operation) or tf.is_tensor(leaf)]
