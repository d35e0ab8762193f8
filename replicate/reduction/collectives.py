"""Sums gradients, dense and sparse ones, and converts sparse gradients to dense ones."""

from __future__ import annotations

from typing import Any, Sequence

import tensorflow.compat.v1 as tf

SCOPE = "replicate/reduce/"  # Name scope of the operations that combine towers' values.
GRADIENTS_SCOPE = f"{SCOPE}gradients/"  # Name scope of those that sum gradients.


def as_gradient(gradient: Any, variable: Any, index: int) -> Any:
    """Returns the gradient of `variable` on tower `index` as a tensor or `tf.IndexedSlices`.

    Raises:
        TypeError: If it is neither and cannot be converted to a tensor.
    """
    if isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        return gradient
    try:
        return tf.convert_to_tensor(gradient)
    except (TypeError, ValueError):
        raise TypeError(
            "A gradient must be a tensor, a `tf.IndexedSlices` or None, but the gradient of "
            f"'{variable.name}' on tower {index} is {gradient!r}."
        ) from None


def check_types(variable: Any, dtypes: Sequence[tuple[int, Any]]) -> Any:
    """Returns the type of a variable's gradients.

    Args:
        variable: The variable.
        dtypes: Non-empty list of `(tower index, dtype)` pairs.

    Raises:
        TypeError: If the types differ.
    """
    i, first = dtypes[0]
    for j, other in dtypes:
        if other != first:
            raise TypeError(
                f"The towers' gradients of '{variable.name}' must be of one type, but tower {i} "
                f"gave {first.name} and tower {j} {other.name}. Cast inside `model_fn`, before the "
                "loss."
            )
    return first


def scale(gradient: Any, weight: Any) -> Any:
    """Returns a gradient, a tensor or `tf.IndexedSlices`, times a scalar; see `tf.multiply`."""
    if isinstance(gradient, tf.IndexedSlices):
        values = tf.multiply(gradient.values, weight)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return tf.multiply(gradient, weight)


def total(grads: Sequence[Any], variable: Any) -> Any:
    """Returns the sum of a variable's gradients, as `tf.IndexedSlices` if all of them are."""
    if len(grads) == 1:
        return grads[0]
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in grads):
        index_type = (
            tf.int64 if any(g.indices.dtype == tf.int64 for g in grads) else grads[0].indices.dtype
        )
        return tf.IndexedSlices(
            tf.concat([gradient.values for gradient in grads], axis=0),
            tf.concat([tf.cast(gradient.indices, index_type) for gradient in grads], axis=0),
            grads[0].dense_shape,
        )
    return tf.add_n([dense(gradient, variable) for gradient in grads])


def dense(gradient: Any, variable: Any) -> Any:
    """Returns a gradient of `variable` as a tensor."""
    if isinstance(gradient, tf.IndexedSlices) and gradient.dense_shape is None:
        shape = tf.shape(variable, out_type=gradient.indices.dtype)
        return tf.scatter_nd(gradient.indices[:, tf.newaxis], gradient.values, shape)
    return tf.convert_to_tensor(gradient)


def with_unique_rows(gradient: Any) -> Any:
    """Returns `gradient` with repeated rows summed, as the computation of a norm needs them."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, positions = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(indices))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)
