"""What each tower counts for in sums and means over towers."""

import contextlib
import contextvars

import tensorflow.compat.v1 as tf

_added_up = contextvars.ContextVar("replicate_losses_added_up", default=False)


def losses_are_added_up():
    """Whether losses of towers and batches are added up here, instead of averaged."""
    return _added_up.get()


@contextlib.contextmanager
def losses_added_up(summed):
    """A scope in which losses of towers and batches are added up if `summed`, else averaged."""
    token = _added_up.set(summed)
    try:
        yield
    finally:
        _added_up.reset(token)


class Weights:
    """One scalar weight per tower.

    Args:
        values: N numbers, or N scalar float64 tensors if only known at run time.
    """

    def __init__(self, values):
        self._values = list(values)
        self._cast = {}
        self._are_positive = {}
        known = not any(isinstance(value, tf.Tensor) for value in self._values)
        self.equal = self._values[0] if known and len(set(self._values)) == 1 else None
        """The weight of every tower, None if they differ or are only known at run time."""

    def of(self, index, dtype):
        """Returns the weight of tower `index` as a scalar tensor of `dtype`."""
        key = index, tf.as_dtype(dtype)
        if key not in self._cast:
            # Kept for later use, so it may depend on nothing that is open just now.
            with tf.control_dependencies(None), tf.name_scope("replicate/weights/"):
                value = self._values[index]
                known = not isinstance(value, tf.Tensor)
                self._cast[key] = tf.constant(value, dtype) if known else tf.cast(value, dtype)
        return self._cast[key]

    def is_positive(self, index):
        """Whether the weight of tower `index` is known to be positive."""
        weight = self._values[index]
        return not isinstance(weight, tf.Tensor) and weight > 0

    def are_positive(self):
        """Whether all weights are known to be positive."""
        return all(self.is_positive(index) for index in range(len(self._values)))

    def mask(self, index, value, otherwise):
        """Returns `value` of tower `index` if the tower's weight is positive, else `otherwise`."""
        if self.is_positive(index):
            return value
        if index not in self._are_positive:
            with tf.control_dependencies(None), tf.name_scope("replicate/weights/"):
                self._are_positive[index] = self.of(index, tf.float32) > 0
        return tf.where_v2(self._are_positive[index], value, otherwise)

    def counted(self):
        """Returns the `Weights` that are 1 where these are positive, and else 0."""
        known = not any(isinstance(value, tf.Tensor) for value in self._values)
        if known:
            return Weights([float(value > 0) for value in self._values])
        with tf.name_scope("replicate/weights/"):
            return Weights([tf.cast(value > 0, tf.float64) for value in self._values])

    def concatenated(self, values, axis=0):
        """Returns one tensor of each tower, concatenated; without those whose weight is zero."""
        kept = []
        for index, value in enumerate(values):
            if not self.is_positive(index):
                size = self.mask(index, tf.shape(value)[axis], 0)
                value = value[(*[slice(None)] * axis, slice(size))]
            kept.append(value)
        return tf.concat(kept, axis)


def row_weights(shards):
    """Returns the `Weights` nᵢ / n, of nᵢ rows of tower i and n rows of the batch, a `Shards`."""
    if isinstance(shards.total, int):
        return Weights([rows / max(shards.total, 1) for rows in shards.rows])
    with tf.name_scope("replicate/weights/"):
        total = tf.cast(tf.maximum(shards.total, 1), tf.float64)
        return Weights([tf.cast(rows, tf.float64) / total for rows in shards.rows])
