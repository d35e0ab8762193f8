"""Runs something in some steps only."""

import contextlib

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
    if tf.executing_eagerly():
        if condition:
            fn()
        return None
    scope = tf.get_default_graph().get_name_scope()

    def run():
        # Variables that are made there have the names that they have without the condition.
        with tf.name_scope(scope + "/" if scope else None):
            done = operations(fn())
        # A tensor, because what waits for an `If` itself does not wait for all of its branch.
        with tf.control_dependencies(done):
            return tf.identity(True)

    with _first_kind_if_needed():
        ran = tf.cond(condition, run, lambda: tf.identity(False))
    return tf.group(tf.identity(ran))


def operations(value):
    """Returns the list of operations and tensors in a nested structure; in eager mode, none."""
    if tf.executing_eagerly():
        return []
    leaves = tf.nest.flatten(value, expand_composites=True)
    return [leaf for leaf in leaves if isinstance(leaf, tf.Operation) or tf.is_tensor(leaf)]


@contextlib.contextmanager
def _first_kind_if_needed():
    """A scope for a `tf.cond`: that of TensorFlow 1 where a variable needs it.

    Functions, of which that of TensorFlow 2 is made, take no variables but those of resources.
    """
    variables = [*tf.global_variables(), *tf.trainable_variables()]
    # Asked of the type, because a variable of replicas has no handle of its own.
    needed = not all(hasattr(type(variable), "handle") for variable in variables)
    if not (needed and tf.control_flow_v2_enabled()):
        yield
        return
    tf.disable_control_flow_v2()
    try:
        yield
    finally:
        tf.enable_control_flow_v2()
