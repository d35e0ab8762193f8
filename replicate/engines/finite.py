"""Whether the gradients of all towers are finite: a flag of each, and their sum."""

import contextlib
import contextvars

import tensorflow.compat.v1 as tf

from replicate.engines import context

_same = contextvars.ContextVar("replicate_same_gradients", default=False)


@contextlib.contextmanager
def same_in_all_towers():
    """A scope in which gradients are the same in all towers, so that one need not ask another."""
    token = _same.set(True)
    try:
        yield
    finally:
        _same.reset(token)


def in_all_towers(grads):
    """Returns whether all gradients are finite, a boolean scalar tensor, the same in all towers.

    A tower without rows does not count.

    Args:
        grads: Nested structure of this tower's gradients: floating tensors, `tf.IndexedSlices` or
            None. In the cross-replica context of tf.distribute also those of all replicas.
    """
    grads = [gradient for gradient in tf.nest.flatten(grads) if gradient is not None]
    if tf.distribute.in_cross_replica_context():
        return _in_all_replicas(grads)
    if context.is_cross_tower() or _same.get():
        return _are_finite(grads)
    (bad,), _ = context.engine().add([_bad(grads)], "finite gradients")
    return tf.equal(bad, 0)


def _in_all_replicas(grads):
    strategy = tf.distribute.get_strategy()
    if all(strategy.experimental_local_results(gradient)[0] is gradient for gradient in grads):
        return _are_finite(grads)  # Each is of all replicas already.
    bad = strategy.extended.call_for_each_replica(_bad, args=(grads,))
    return tf.equal(strategy.reduce(tf.distribute.ReduceOp.SUM, bad, axis=None), 0)


def _bad(grads):
    """Returns 1 if a gradient here is not finite, else 0, an int32 scalar tensor."""
    return 1 - tf.cast(_are_finite(grads), tf.int32)


def _are_finite(grads):
    """Returns whether all gradients here are finite, a boolean scalar tensor."""
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in grads]
    flags = [_is_finite(value) for value in values]
    # Updates wait for this, and for each operation on the way to it.
    return flags[0] if len(flags) == 1 else tf.reduce_all(tf.convert_to_tensor(flags, tf.bool))


def _is_finite(value):
    if not context.is_cross_tower():
        return tf.reduce_all(tf.math.is_finite(value))
    with tf.colocate_with(value):  # Only the flag crosses devices.
        return tf.reduce_all(tf.math.is_finite(value))
