"""Runs something in some steps only."""

import contextlib

import tensorflow.compat.v1 as tf

from replicate.compat import conditional
from replicate.compat.function_graphs import old_control_flow


def run_if(condition, fn):
    """Runs what `fn` makes in those steps in which `condition` holds.

    Args:
        condition: Boolean scalar tensor, or True.
        fn: Function without arguments. It returns a nested structure of what is to run.

    Returns:
        An operation, which has run when all that `fn` returned has, or need not; None in eager
        mode. If `condition` is True, what `fn` returns. Summaries that `fn` makes are empty in the
        other steps.
    """
    if condition is True:
        return fn()
    if tf.executing_eagerly():
        if condition:
            fn()
        return None
    scope = tf.get_default_graph().get_name_scope()
    before = len(tf.get_collection(tf.GraphKeys.SUMMARIES))
    summaries = []

    def run():
        # Variables that are made here have the names that they have without the condition.
        with tf.name_scope(scope + "/" if scope else None):
            done = operations(fn())
        # What is in a branch cannot be fetched, but what it returns can be.
        collection = tf.get_collection_ref(tf.GraphKeys.SUMMARIES)
        summaries.extend(collection[before:])
        del collection[before:]
        # A tensor, because what waits for an `If` itself does not wait for all of its branch.
        with tf.control_dependencies(done):
            return [tf.identity(True), *summaries]

    def skip():
        return [tf.identity(False), *(tf.constant("") for _ in summaries)]

    # Branches of TensorFlow 2 cannot assign to references.
    are_references = any(one.dtype != one.dtype.base_dtype for one in tf.global_variables())
    with old_control_flow() if are_references else contextlib.nullcontext():
        if conditional.is_possible():
            ran, *made = conditional.cond(condition, run, skip)
        else:
            ran, *made = tf.cond(condition, run, skip, strict=True)
    for summary in made:
        tf.add_to_collection(tf.GraphKeys.SUMMARIES, summary)
    return tf.group(tf.identity(ran))


def operations(value):
    """Returns the list of operations and tensors in a nested structure; in eager mode, none."""
    if tf.executing_eagerly():
        return []
    leaves = tf.nest.flatten(value, expand_composites=True)
    return [leaf for leaf in leaves if isinstance(leaf, tf.Operation) or tf.is_tensor(leaf)]
