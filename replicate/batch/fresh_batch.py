"""Whether a staged batch may be taken: it is one that no run of the session has taken before.

What depends on a value that is dead, in the sense of TensorFlow 1's control flow, does not run.
"""

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning

# States of what is staged. What takes a batch takes a fresh one; a step stages the next.
EMPTY, FRESH, TAKEN, OVER = range(4)
_NOT_FRESH = (
    "With `prefetch_to_devices`, each run of a session that takes a batch must run the train "
    "operation, once a hook has staged the first batch in `after_create_session`; but a run took "
    "one without that (state 2), or a step was run before that, or after the iterator or local "
    "variables were initialised once more (state 0). Fetch what you need in the same run, by "
    "`SessionRunArgs`, or leave `prefetch_to_devices` out. The state is",
)


def taken(state, last, iterators):
    """Returns a tensor that is there if a fresh batch is, which then is taken; else it fails.

    Args:
        state: Variable, one of the states above.
        last: Operations that take a batch from the iterators, which raise at the end.
        iterators: The iterators.
    """
    found = state.read_value()
    is_fresh, is_over = tf.equal(found, FRESH), tf.equal(found, OVER)
    is_wrong = tf.logical_not(is_fresh | is_over)
    with tf.control_dependencies([tf.identity(if_true(is_fresh, found))]):
        told = state.assign(TAKEN, read_value=False)
    with tf.control_dependencies([told]):
        there = tf.identity(if_true(is_fresh, found))
    for op in last:  # Nobody takes what it gives any more: it raises.
        partitioning.take(op, 0, if_true(is_over, op.inputs[0]))
    with tf.control_dependencies(last):
        over = tf.identity(if_true(is_over, found))
    failed = tf.raw_ops.Assert(condition=if_true(is_wrong, is_fresh), data=[*_NOT_FRESH, found])
    with tf.control_dependencies([failed]):
        wrong = tf.identity(if_true(is_wrong, found))
    for iterator in iterators:
        for op in iterator.consumers():
            if op.type == "MakeIterator":  # Which begins anew: what is staged is of before.
                reset = state.assign(EMPTY, read_value=False)
                graph_lib.add_control_inputs(op, [reset])
    return tf.raw_ops.Merge(inputs=[there, over, wrong]).output


def if_true(condition, value):
    """Returns `value`, dead unless the scalar `condition` is true."""
    return tf.raw_ops.Switch(data=value, pred=condition).output_true


def if_false(condition, value):
    """Returns `value`, dead if the scalar `condition` is true."""
    return tf.raw_ops.Switch(data=value, pred=condition).output_false
