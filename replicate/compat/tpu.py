"""What TensorFlow knows of the TPU replica that is being built here and has no public name for."""

from tensorflow.compiler.tf2xla.python import xla
from tensorflow.python.tpu import tpu_function


def number_of_shards():
    """Returns how many replicas the TPU computation under construction has, None outside of one.

    `tf.tpu.CrossShardOptimizer` asks the same, by this name.
    """
    return tpu_function.get_tpu_context().number_of_shards


def replica_id():
    """Returns the index of the replica that computes, an int32 scalar tensor."""
    return xla.replica_id()
