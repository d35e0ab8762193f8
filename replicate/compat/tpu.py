"""What TensorFlow knows of the TPU replica that is being built here and has no public name for."""

import contextlib
import contextvars
import functools

import tensorflow.compat.v1 as tf
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.python.ops import gen_tpu_ops
from tensorflow.python.tpu import tpu, tpu_function

_sum = contextvars.ContextVar("replicate_sum_over_replicas", default=None)

_COMPUTATION = "_tpu_replicate"  # The attribute that says which computation an operation is in.


def number_of_shards():
    """Returns how many replicas the TPU computation under construction has, None outside of one.

    `tf.tpu.CrossShardOptimizer` asks the same, by this name.
    """
    return tpu_function.get_tpu_context().number_of_shards


@contextlib.contextmanager
def sums_over_replicas_by(function):
    """A scope in which `tf.tpu.cross_replica_sum`, which only TPUs have, is another function."""
    _install()
    token = _sum.set(function)
    try:
        yield
    finally:
        _sum.reset(token)


@functools.lru_cache(maxsize=None)
def _install():
    """Makes TensorFlow heed `sums_over_replicas_by`. Does so once."""
    original = gen_tpu_ops.cross_replica_sum

    @functools.wraps(original)
    def cross_replica_sum(input, group_assignment, name=None):  # By these names.
        function = _sum.get()
        if function is None:
            return original(input, group_assignment, name)
        groups = tf.get_static_value(tf.convert_to_tensor(group_assignment))
        if groups is not None and len(groups) > 1:
            raise ValueError(
                "Towers meet all at once, but `tf.tpu.cross_replica_sum` was called with the "
                f"groups {groups.tolist()}. Leave `group_assignment` out, or take single towers' "
                "values of `replicate.merge_call`."
            )
        return function(input)

    gen_tpu_ops.cross_replica_sum = cross_replica_sum


def building_for(number):
    """A scope in which `tf.tpu.CrossShardOptimizer` takes a model for one of `number` replicas."""
    return tpu_function.tpu_shard_context(number)


def replica_id():
    """Returns the index of the replica that computes, an int32 scalar tensor."""
    return xla.replica_id()


def in_computation():
    """Whether a TPU computation is being built here, for replicas or for a SavedModel."""
    return number_of_shards() is not None or tpu.under_tpu_inference_context()


def take_out_summaries(graph):
    """Takes summaries that were made in TPU computations out of them and of their collection.

    A TPU cannot make them, and nothing outside can read what is inside. The operations stay, for
    those who hold them, but summarise zeros.

    Args:
        graph: The graph.

    Returns:
        List of their names.
    """
    found = [op for op in graph.get_operations() if "Summary" in op.type and is_inside(op)]
    with tf.control_dependencies(None), tf.name_scope("replicate/tpu/summaries/"):
        for op in found:
            _take_out(op)
            for index, tensor in enumerate(op.inputs):
                if tensor.op.type == "Const":  # Tags are strings, which a TPU does not have.
                    _take_out(tensor.op)
                else:
                    op._update_input(index, tf.zeros(tensor.shape, tensor.dtype))
    summaries = graph.get_collection_ref(tf.GraphKeys.SUMMARIES)
    summaries[:] = [summary for summary in summaries if summary.op not in found]
    return [op.name for op in found]


def _take_out(op):
    if is_inside(op):
        op._clear_attr(_COMPUTATION)
        op._remove_all_control_inputs()


def is_inside(op):
    """Whether an operation is in a TPU computation."""
    return _COMPUTATION in op.node_def.attr


def without_cross_shard(optimizer):
    """Returns what a `tf.tpu.CrossShardOptimizer` wraps; any other optimizer as it is.

    Both it and `TowerOptimizer` gather the gradients of TPU replicas, and outside of TPUs its sums
    have no kernel.

    Raises:
        ValueError: If it does not take the mean over all replicas.
    """
    if not isinstance(optimizer, tf.tpu.CrossShardOptimizer):
        return optimizer
    if optimizer._reduction != tf.losses.Reduction.MEAN or optimizer._group_assignment is not None:
        raise ValueError(
            "`TowerOptimizer` gathers the gradients of all towers, in TPU replicas too, so a "
            "`CrossShardOptimizer` in it must be one that takes the mean over all replicas, but "
            f"its reduction is {optimizer._reduction!r} and its groups are "
            f"{optimizer._group_assignment!r}. Wrap the optimizer itself, and if losses are sums, "
            "say so: `replicate_model_fn(model_fn, loss_reduction=tf.losses.Reduction.SUM)`."
        )
    return optimizer._opt
