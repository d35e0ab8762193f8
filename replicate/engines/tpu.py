"""Runs towers as the replicas of a TPU computation.

R is the number of replicas, i.e. of the cores that one TPU computation is built for
(`tf.tpu.shard`, `TPUEstimator`). A model is built once for all of them, so that no replica can wait
for another one: each replica computes a cross-replica value itself, from
`tf.tpu.cross_replica_sum`, and gets the same result. TPU shards are of equal size.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import tensorflow.compat.v1 as tf

from replicate.batch import losses_are_added_up
from replicate.compat.tpu import number_of_shards, replica_id
from replicate.engines.engine import Engine
from replicate.engines.per_tower import PerTower
from replicate.reduction import collectives

_WIDE = (tf.int64, tf.uint64)  # A TPU adds up integers of 32 bits only.


def engine() -> TPUEngine | None:
    """Returns the `TPUEngine` of the TPU computation under construction, None outside of one."""
    count = number_of_shards()
    return None if count is None else TPUEngine(count)


class TPUEngine(Engine):
    """The engine in a TPU replica.

    Args:
        size: R.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    @property
    def index(self) -> Any:
        """The index of the replica that runs, an int32 scalar tensor."""
        return replica_id()

    def mean_share(self, value: Any) -> Any:
        """Returns `value / R`."""
        # Divide before adding: a sum in half precision may overflow.
        return value / tf.cast(self.size, value.dtype)

    def add(self, tensors: Sequence[Any], label: str) -> tuple[list[Any], str]:
        """Returns cross-replica sums."""
        del label
        return [self._sum(tensor) for tensor in tensors], ""

    def meet(self, fn: Callable[..., Any], args: Sequence[Any], label: str) -> Any:
        """Calls `fn` in each replica, with the same values."""
        del label
        result = fn(*(PerTower(self._of_all(arg)) for arg in args))
        if not isinstance(result, PerTower):
            return result
        return tf.gather(tf.stack(result.of_towers(self.size)), self.index)

    def apply_gradients(self, optimizer: Any, grads_and_vars: Any, args: Any, kwargs: Any) -> Any:
        """Applies the gradient of the whole batch's loss in each replica."""
        summed = [(self._reduced(g, variable), variable) for g, variable in grads_and_vars]
        return optimizer.step.apply(summed, args, kwargs)

    def _reduced(self, gradient: Any, variable: Any) -> Any:
        """Returns the replicas' gradients averaged or added up, as a dense tensor; None for None.

        A cross-replica sum takes no `tf.IndexedSlices`.
        """
        if gradient is None:
            return None
        gradient = collectives.as_gradient(gradient, variable, 0)
        gradient = collectives.dense(gradient, variable)
        return self._sum(gradient if losses_are_added_up() else self.mean_share(gradient))

    def _sum(self, tensor: Any) -> Any:
        """Returns a tensor summed over the replicas."""
        if tensor.dtype in _WIDE:
            # Sums of the 32-bit halves would lose the carry: exchange all values instead.
            return tf.add_n(self._rows(tensor))
        if tensor.dtype.is_integer and tensor.dtype not in (tf.int32, tf.uint32):
            return tf.cast(tf.tpu.cross_replica_sum(tf.cast(tensor, tf.int32)), tensor.dtype)
        return tf.tpu.cross_replica_sum(tensor)

    def _of_all(self, value: Any) -> list[Any]:
        """Returns the list of the R replicas' values; a value that is not a tensor is repeated."""
        leaves = [self._rows(leaf) for leaf in tf.nest.flatten(value)]
        if not leaves:
            return [value] * self.size
        return [tf.nest.pack_sequence_as(value, rows) for rows in zip(*leaves)]

    def _rows(self, value: Any) -> list[Any]:
        """Returns the list of the R replicas' values of a tensor.

        Each replica fills one row of zeros with its value; the sum over replicas has all rows.
        """
        if isinstance(value, (tf.SparseTensor, tf.RaggedTensor, tf.IndexedSlices)) or (
            tf.is_tensor(value) and value.dtype == tf.string
        ):
            raise TypeError(
                "TPU replicas give one another dense tensors of numbers, but `merge_call` got "
                f"{value!r}. Convert it first, e.g. with `tf.sparse.to_dense`."
            )
        if not tf.is_tensor(value):
            return [value] * self.size
        value = tf.convert_to_tensor(value)
        # A cross-replica sum takes no booleans, and only integers of 32 bits. Bits survive it,
        # because only one summand of each entry is not 0.
        if value.dtype in _WIDE:
            carried = tf.bitcast(value, tf.int32)
        elif value.dtype.is_bool or (value.dtype.is_integer and value.dtype != tf.uint32):
            carried = tf.cast(value, tf.int32)
        else:
            carried = value
        is_here = tf.one_hot(self.index, self.size, True, False, dtype=tf.bool)
        is_here = tf.reshape(
            is_here, tf.concat([[self.size], tf.ones_like(tf.shape(carried))], axis=0)
        )
        # Not by a product: 0 times a NaN of one replica is a NaN in all rows.
        own = tf.where_v2(is_here, carried[tf.newaxis], tf.zeros_like(carried)[tf.newaxis])
        rows = tf.unstack(tf.tpu.cross_replica_sum(own), num=self.size)
        restore = tf.bitcast if value.dtype in _WIDE else tf.cast
        return [restore(row, value.dtype) for row in rows]
