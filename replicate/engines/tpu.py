"""The engine of a TPU replica: what towers do where they meet, done by sums over replicas.

R is the number of replicas, the cores that one TPU computation is built for (`tf.tpu.shard`,
`TPUEstimator`). A model is built once for all of them, so nothing can wait for another replica:
a value of all replicas is computed by each, from `tf.tpu.cross_replica_sum`, and is the same in
each. TPU shards are of equal size.
"""

import tensorflow.compat.v1 as tf

from replicate.batch import losses_are_added_up
from replicate.compat.tpu import number_of_shards, replica_id
from replicate.engines.engine import Engine
from replicate.engines.per_tower import PerTower
from replicate.reduction import collectives

_WIDE = (tf.int64, tf.uint64)


def engine():
    """Returns the `TPUEngine` of the TPU computation under construction, None outside of one."""
    count = number_of_shards()
    return None if count is None else TPUEngine(count)


class TPUEngine(Engine):
    """The engine in a TPU replica.

    Args:
        size: R.
    """

    def __init__(self, size):
        self.size = size

    @property
    def index(self):
        """The index of the replica that computes, an int32 scalar tensor."""
        return replica_id()

    def mean_share(self, value):
        """Returns `value / R`."""
        # Divided before they are added, as half-precision sums overflow.
        return value / tf.cast(self.size, value.dtype)

    def add(self, tensors, label):
        """Returns cross-replica sums."""
        del label
        return [self._sum(tensor) for tensor in tensors], ""

    def meet(self, fn, args, label):
        """Calls `fn` in each replica, with the same values."""
        del label
        result = fn(*(PerTower(self._of_all(arg)) for arg in args))
        if not isinstance(result, PerTower):
            return result
        return tf.gather(tf.stack(result.of_towers(self.size)), self.index)

    def apply_gradients(self, optimizer, grads_and_vars, args, kwargs):
        """Applies the gradient of the whole batch's loss in each replica."""
        gathered = [(self._gather(g, variable), variable) for g, variable in grads_and_vars]
        return optimizer.step.apply(gathered, args, kwargs)

    def _gather(self, gradient, variable):
        """Returns the replicas' gradients averaged or added up, made dense; None stays None."""
        if gradient is None:
            return None
        gradient = collectives.as_gradient(gradient, variable, 0)
        gradient = collectives.dense(gradient, variable)
        return self._sum(gradient if losses_are_added_up() else self.mean_share(gradient))

    def _sum(self, tensor):
        """Returns a tensor summed over the replicas."""
        if tensor.dtype in _WIDE:  # What follows keeps the bits of one, but loses the sum's carry.
            return tf.add_n(self._rows(tensor))
        if tensor.dtype.is_integer and tensor.dtype not in (tf.int32, tf.uint32):
            return tf.cast(tf.tpu.cross_replica_sum(tf.cast(tensor, tf.int32)), tensor.dtype)
        return tf.tpu.cross_replica_sum(tensor)

    def _of_all(self, value):
        """Returns the list of the R replicas' values; what is no tensor is the same in all."""
        leaves = [self._rows(leaf) for leaf in tf.nest.flatten(value)]
        if not leaves:
            return [value] * self.size
        return [tf.nest.pack_sequence_as(value, rows) for rows in zip(*leaves)]

    def _rows(self, value):
        """Returns the list of the R replicas' values of a tensor."""
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
        # A cross-replica sum has no booleans and no integers but of 32 bits. One summand is not 0.
        if value.dtype in _WIDE:
            carried = tf.bitcast(value, tf.int32)
        elif value.dtype.is_bool or (value.dtype.is_integer and value.dtype != tf.uint32):
            carried = tf.cast(value, tf.int32)
        else:
            carried = value
        own_row = tf.one_hot(self.index, self.size, dtype=carried.dtype)
        own_row = tf.reshape(
            own_row, tf.concat([[self.size], tf.ones_like(tf.shape(carried))], axis=0)
        )
        rows = tf.unstack(tf.tpu.cross_replica_sum(own_row * carried[tf.newaxis]), num=self.size)
        restore = tf.bitcast if value.dtype in _WIDE else tf.cast
        return [restore(row, value.dtype) for row in rows]
