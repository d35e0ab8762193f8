"""Runs operations in some steps only."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager

import tensorflow.compat.v1 as tf

from replicate.compat import conditional


def run_if(condition: Any, fn: Callable[[], Any]) -> Any:
    """Runs the operations of `fn` in steps in which `condition` holds.

    Args:
        condition: Boolean scalar tensor, or True.
        fn: Function without arguments. It returns a nested structure of operations to run.

    Returns:
        An operation that ends after all operations that `fn` returned, or at once in steps without
        them; None in eager mode. If `condition` is True, the result of `fn`. In steps without them,
        summaries that `fn` makes are empty.
    """
    if condition is True:
        return fn()
    if tf.executing_eagerly():
        if condition:
            fn()
        return None
    scope = tf.get_default_graph().get_name_scope()
    before = len(tf.get_collection(tf.GraphKeys.SUMMARIES))
    summaries: list[Any] = []

    def run() -> list[Any]:
        # The condition must not change the names of variables that `fn` makes.
        with tf.name_scope(scope + "/" if scope else None):
            done = operations(fn())
        # Summaries inside a branch cannot be fetched, so the branch returns them.
        collection = tf.get_collection_ref(tf.GraphKeys.SUMMARIES)
        summaries.extend(collection[before:])
        del collection[before:]
        # A tensor, because an operation that waits for an `If` itself does not wait for everything
        # in its branch.
        with tf.control_dependencies(done):
            return [tf.identity(True), *summaries]

    def skip() -> list[Any]:
        return [tf.identity(False), *(tf.constant("") for _ in summaries)]

    # Branches of TensorFlow 2 cannot assign to reference variables.
    are_references = any(one.dtype != one.dtype.base_dtype for one in tf.global_variables())
    scope_of_cond: ContextManager[Any] = contextlib.nullcontext()
    if are_references:
        scope_of_cond = conditional.old_control_flow()
    with scope_of_cond:
        if conditional.is_possible():
            ran, *made = conditional.cond(condition, run, skip)
        else:
            ran, *made = tf.cond(condition, run, skip, strict=True)
    for summary in made:
        tf.add_to_collection(tf.GraphKeys.SUMMARIES, summary)
    return tf.group(tf.identity(ran))


def operations(value: Any) -> list[Any]:
    """Returns the list of operations and tensors in a nested structure; empty in eager mode."""
    if tf.executing_eagerly():
        return []
    leaves = tf.nest.flatten(value, expand_composites=True)
    return [leaf for leaf in leaves if isinstance(leaf, tf.Operation) or tf.is_tensor(leaf)]
