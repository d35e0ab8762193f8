"""Tells whether the gradients of all towers are finite, by a flag of each tower and their sum."""

from __future__ import annotations

import contextlib
import contextvars
from typing import Any, Iterator, Sequence

import tensorflow.compat.v1 as tf

from replicate.engines import context

_same: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "replicate_same_gradients", default=False
)


@contextlib.contextmanager
def same_in_all_towers() -> Iterator[None]:
    """A scope whose gradients are the same in all towers, so that towers need not communicate."""
    token = _same.set(True)
    try:
        yield
    finally:
        _same.reset(token)


def in_all_towers(grads: Any) -> Any:
    """Returns whether all gradients are finite, a boolean scalar tensor, the same in all towers.

    A tower without rows does not count.

    Args:
        grads: Nested structure of this tower's gradients: floating or complex tensors,
            `tf.IndexedSlices` or None. In the cross-replica context of tf.distribute, gradients of
            all replicas, too.
    """
    grads = [gradient for gradient in tf.nest.flatten(grads) if gradient is not None]
    if tf.distribute.in_cross_replica_context():
        return _in_all_replicas(grads)
    if context.is_cross_tower() or _same.get():
        return _are_finite(grads)
    (bad,), _ = context.engine().add([_bad(grads)], "finite gradients")
    return tf.equal(bad, 0)


def _in_all_replicas(grads: Sequence[Any]) -> Any:
    strategy = tf.distribute.get_strategy()
    if all(strategy.experimental_local_results(gradient)[0] is gradient for gradient in grads):
        return _are_finite(grads)  # No gradient has one value per replica.
    bad = strategy.extended.call_for_each_replica(_bad, args=(grads,))
    return tf.equal(strategy.reduce(tf.distribute.ReduceOp.SUM, bad, axis=None), 0)


def _bad(grads: Sequence[Any]) -> Any:
    """Returns 1 if a gradient here is not finite, else 0, an int32 scalar tensor."""
    return 1 - tf.cast(_are_finite(grads), tf.int32)


def _are_finite(grads: Sequence[Any]) -> Any:
    """Returns whether all gradients here are finite, a boolean scalar tensor."""
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in grads]
    flags = [_is_finite(value) for value in values]
    # Updates wait for each operation that leads to the flag: save one if there is one gradient.
    return flags[0] if len(flags) == 1 else tf.reduce_all(tf.convert_to_tensor(flags, tf.bool))


def _is_finite(value: Any) -> Any:
    if not context.is_cross_tower():
        return is_finite(value)
    with tf.colocate_with(value):  # Then only the flag crosses devices.
        return is_finite(value)


def is_finite(value: Any) -> Any:
    """Returns whether all numbers of a floating or complex tensor are finite, a boolean scalar."""
    value = tf.convert_to_tensor(value)
    if not value.dtype.is_complex:
        return tf.reduce_all(tf.math.is_finite(value))
    # Not the absolute value, which may overflow.
    real, imaginary = tf.math.real(value), tf.math.imag(value)
    return tf.reduce_all(tf.math.is_finite(real) & tf.math.is_finite(imaginary))
