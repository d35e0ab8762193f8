"""Raises an error that names gradients that are not finite, before variables change."""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, Iterator

import tensorflow.compat.v1 as tf

from replicate.engines import finite
from replicate.graphs import run_if


@contextlib.contextmanager
def only_if_finite(grads_and_vars: Iterable[tuple[Any, tf.Variable]]) -> Iterator[None]:
    """A scope whose operations run only if gradients are finite.

    If one is not, the step fails with a `tf.errors.InvalidArgumentError`.

    Args:
        grads_and_vars: The list of `(gradient, variable)` pairs.
    """
    with tf.name_scope("replicate/check_finite/"):
        names, flags = _are_finite(grads_and_vars)
        is_bad = tf.logical_not(tf.reduce_all(flags))
        check = run_if(is_bad, lambda: _fail(names, flags))
    with tf.control_dependencies([] if check is None else [check]):
        yield


def _are_finite(pairs: Iterable[tuple[Any, tf.Variable]]) -> tuple[list[str], tf.Tensor]:
    """Returns N names of variables, and whether their gradients are finite, booleans of shape [N].

    Gradients that are None or integers are left out.
    """
    names, flags = [], []
    for gradient, variable in pairs:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        if values is not None and (values.dtype.is_floating or values.dtype.is_complex):
            names.append(variable.name)
            flags.append(finite.is_finite(values))
    return names, tf.stack(flags) if flags else tf.zeros([0], tf.bool)


def _fail(names: list[str], flags: tf.Tensor) -> list[Any]:
    """Raises in the session, or immediately in eager mode."""
    with tf.device("/cpu:0"):  # Strings are on the host.
        bad = tf.boolean_mask(tf.constant(names), tf.logical_not(flags))
        message = tf.strings.join(
            [
                "Gradients must be finite, but these are not: ",
                tf.strings.reduce_join(bad, separator=", "),
                ". No variable was updated. Check this batch and the learning rate, or skip such "
                "steps with a dynamic loss scale.",
            ]
        )
        return tf.Assert(False, [message])
