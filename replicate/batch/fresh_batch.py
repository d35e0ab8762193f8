"""The state of a staged batch, which one run of the session takes at most.

An operation that depends on a dead value, in the sense of TensorFlow 1's control flow, does not
run. So the state that a run finds decides whether it takes the batch, ends the input or fails.
"""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning

# States of the staged batch. A run takes a fresh one, and a training step stages the next.
EMPTY, FRESH, TAKEN, OVER = range(4)
_NOT_FRESH = (
    "With `prefetch_to_devices`, each run of a session that takes a batch must run the train "
    "operation, once a hook has staged the first batch in `after_create_session`; but a run took "
    "one without that (state 2), or a step was run before that, or after the iterator or local "
    "variables were initialised again (state 0). Fetch other values in the same run, by "
    "`SessionRunArgs`, or leave `prefetch_to_devices` out. The state is",
)


def taken(state: Any, last: Sequence[tf.Operation], iterators: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns a tensor that exists if the staged batch is fresh; then its state becomes taken.

    If the input is over, the operations in `last` run and raise its end. In all other states, an
    assertion fails.

    Args:
        state: Variable, an int32 scalar with one of the states above.
        last: Operations that take a batch from the iterators, and raise at the end of the input.
        iterators: The iterators' handles.
    """
    found = state.read_value()
    is_fresh, is_over = tf.equal(found, FRESH), tf.equal(found, OVER)
    is_wrong = tf.logical_not(is_fresh | is_over)
    with tf.control_dependencies([tf.identity(if_true(is_fresh, found))]):
        told = state.assign(TAKEN, read_value=False)
    with tf.control_dependencies([told]):
        there = tf.identity(if_true(is_fresh, found))
    for op in last:  # Nothing uses its outputs any more: it only raises.
        partitioning.take(op, 0, if_true(is_over, op.inputs[0]))
    with tf.control_dependencies(last):
        over = tf.identity(if_true(is_over, found))
    failed = tf.raw_ops.Assert(condition=if_true(is_wrong, is_fresh), data=[*_NOT_FRESH, found])
    with tf.control_dependencies([failed]):
        wrong = tf.identity(if_true(is_wrong, found))
    for iterator in iterators:
        for op in iterator.consumers():
            if op.type == "MakeIterator":  # The iterator starts again, so the batch is stale.
                reset = state.assign(EMPTY, read_value=False)
                graph_lib.add_control_inputs(op, [reset])
    return tf.raw_ops.Merge(inputs=[there, over, wrong]).output


def if_true(condition: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Returns `value`, dead unless the boolean scalar `condition` is true."""
    return tf.raw_ops.Switch(data=value, pred=condition).output_true


def if_false(condition: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Returns `value`, dead if the boolean scalar `condition` is true."""
    return tf.raw_ops.Switch(data=value, pred=condition).output_false
