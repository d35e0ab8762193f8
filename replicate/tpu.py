"""Inside a TPU replica: what towers do where they meet, done by sums over replicas.

R is the number of replicas, the cores that one TPU computation is built for (`tf.tpu.shard`,
`TPUEstimator`). A model is built once for all of them, so nothing can wait for another replica:
a value of all replicas is computed by each, from `tf.tpu.cross_replica_sum`, and is the same in
each. TPU shards are of equal size.
"""

import tensorflow.compat.v1 as tf

from replicate.compat.tpu import number_of_shards, replica_id

__all__ = ("all_replicas", "mean", "number_of_shards", "of_replica", "replica_id", "total")


def total(tensor):
    """Returns the sum of a numeric tensor over the replicas, differentiable."""
    return tf.tpu.cross_replica_sum(tensor)


def mean(gradient):
    """Returns the mean over the replicas of a gradient, made dense; None stays None."""
    if gradient is None:
        return None
    gradient = tf.convert_to_tensor(gradient)
    # Divided first, as half-precision sums overflow.
    return total(gradient / tf.cast(number_of_shards(), gradient.dtype))


def all_replicas(value):
    """Returns the list of the R replicas' values; what is no tensor is the same in all."""
    count = number_of_shards()
    if not tf.is_tensor(value):
        return [value] * count
    value = tf.convert_to_tensor(value)
    # A cross-replica sum has no booleans and no integers but of 32 bits.
    carried = tf.cast(value, tf.int32) if value.dtype.is_bool or value.dtype.is_integer else value
    own_row = tf.one_hot(replica_id(), count, dtype=carried.dtype)
    own_row = tf.reshape(own_row, tf.concat([[count], tf.ones_like(tf.shape(carried))], axis=0))
    rows = total(own_row * carried[tf.newaxis])
    return [tf.cast(row, value.dtype) for row in tf.unstack(rows, num=count)]


def of_replica(values):
    """Returns, of a list of R tensors of the same shape and dtype, that of this replica."""
    return tf.gather(tf.stack(values), replica_id())
