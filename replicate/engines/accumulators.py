"""Makes the variables that add up gradients of several batches."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow.compat.v1 as tf

from replicate.clusters import worker_here
from replicate.compat import saving, seeds
from replicate.graphs import OF_SESSION, run_if
from replicate.reduction import chosen


def make_variable(initial: Callable[[], Any], name: str, shape: Any = None, **kwargs: Any) -> Any:
    """Makes a variable in which one tower, or all towers together, add up values; it is saved.

    Args:
        initial: Function without arguments that returns the initial value.
        name: Name of the variable; open name scopes do not change it.
        shape: The variable's `tf.TensorShape` if the shape may change; None if it is fixed.
        **kwargs: More arguments of `tf.Variable`.

    Returns:
        The variable.
    """
    # Local in a cluster, since each worker adds up its batches separately; the chief saves only its
    # totals. Local in any replicated model, so that a session initialises it if the user's saver
    # leaves it out.
    is_local = bool(worker_here()) or chosen.is_listening()
    if is_local:
        kwargs["collections"] = [tf.GraphKeys.LOCAL_VARIABLES, OF_SESSION]
    with tf.init_scope(), tf.name_scope(None):
        variable = tf.Variable(
            initial,
            name=name,
            shape=shape,
            validate_shape=shape is None,
            trainable=False,
            use_resource=True,
            **kwargs,
        )
        if is_local:
            tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, variable)
            # A session runs the local initializers after it restores a checkpoint: an
            # unconditional one would overwrite the restored value.
            with seeds.uncounted():
                is_new = tf.logical_not(variable.is_initialized())
                made = run_if(is_new, lambda: variable.assign(initial()).op)
            saving.set_initializer(variable, made)
    return variable
