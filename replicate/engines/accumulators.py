"""Variables in which gradients of several batches are added up."""

import tensorflow.compat.v1 as tf

from replicate.batch import OF_SESSION
from replicate.clusters import worker_here
from replicate.compat import saving
from replicate.graphs import run_if
from replicate.reduction import chosen


def make_variable(initial, name, shape=None, **kwargs):
    """Makes what one tower, or all together, add up in: a variable that is saved.

    Args:
        initial: Function without arguments that returns the initial value.
        name: Name of the variable, whatever name scopes are open.
        shape: Its `tf.TensorShape` where that changes; None where it does not.
        **kwargs: More arguments of `tf.Variable`.

    Returns:
        The variable.
    """
    # Of a cluster, each worker adds up its own batches, and the chief saves its own. A saver that
    # knows nothing of it lets it begin anew.
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
            # A session initialises its local variables after it has restored a checkpoint.
            is_new = tf.logical_not(variable.is_initialized())
            made = run_if(is_new, lambda: variable.assign(initial()).op)
            saving.set_initializer(variable, made)
    return variable
