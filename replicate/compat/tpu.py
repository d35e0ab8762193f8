"""Functions on the TPU computation under construction that have no public name."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from typing import Any, Callable, ContextManager, Iterator

import tensorflow.compat.v1 as tf
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.python.ops import gen_tpu_ops
from tensorflow.python.tpu import tpu, tpu_function

_sum: contextvars.ContextVar[Callable[[tf.Tensor], tf.Tensor] | None] = contextvars.ContextVar(
    "replicate_sum_over_replicas", default=None
)

_COMPUTATION = "_tpu_replicate"  # The attribute that names the computation of an operation.


def number_of_shards() -> int | None:
    """Returns the number of replicas of the TPU computation under construction; None outside.

    `tf.tpu.CrossShardOptimizer` uses the same function.
    """
    return tpu_function.get_tpu_context().number_of_shards


@contextlib.contextmanager
def sums_over_replicas_by(function: Callable[[tf.Tensor], tf.Tensor]) -> Iterator[None]:
    """A scope in which `function` replaces `tf.tpu.cross_replica_sum`, which only TPUs have."""
    _install()
    token = _sum.set(function)
    try:
        yield
    finally:
        _sum.reset(token)


@functools.lru_cache(maxsize=None)
def _install() -> None:
    """Makes TensorFlow respect `sums_over_replicas_by`; further calls do nothing."""
    original = gen_tpu_ops.cross_replica_sum

    @functools.wraps(original)
    def cross_replica_sum(
        input: tf.Tensor, group_assignment: Any, name: str | None = None
    ) -> tf.Tensor:  # TensorFlow passes these by name.
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


def building_for(number: int) -> ContextManager[None]:
    """A scope in which `tf.tpu.CrossShardOptimizer` assumes one of `number` replicas."""
    return tpu_function.tpu_shard_context(number)


def replica_id() -> tf.Tensor:
    """Returns the index of the replica that runs, an int32 scalar tensor."""
    return xla.replica_id()


def in_computation() -> bool:
    """Whether a TPU computation is being built here, for replicas or for a SavedModel."""
    return number_of_shards() is not None or tpu.under_tpu_inference_context()


def take_out_summaries(graph: tf.Graph) -> list[str]:
    """Removes summaries from TPU computations and from the collection of summaries.

    A TPU cannot make summaries, and operations outside a computation cannot read values inside. The
    operations stay in the graph, for code that refers to them, but summarize zeros.

    Args:
        graph: The graph.

    Returns:
        List of the names of the summaries.
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


def _take_out(op: tf.Operation) -> None:
    if is_inside(op):
        op._clear_attr(_COMPUTATION)
        op._remove_all_control_inputs()


def is_inside(op: tf.Operation) -> bool:
    """Whether an operation is in a TPU computation."""
    return _COMPUTATION in op.node_def.attr


def without_cross_shard(optimizer: Any) -> Any:
    """Returns the optimizer that a `tf.tpu.CrossShardOptimizer` wraps; any other one unchanged.

    `TowerOptimizer` sums the gradients of TPU replicas, too, and outside TPUs the sums of
    `CrossShardOptimizer` have no kernel.

    Raises:
        ValueError: If the `CrossShardOptimizer` does not take the mean over all replicas.
    """
    if not isinstance(optimizer, tf.tpu.CrossShardOptimizer):
        return optimizer
    if optimizer._reduction != tf.losses.Reduction.MEAN or optimizer._group_assignment is not None:
        raise ValueError(
            "`TowerOptimizer` sums the gradients of all towers, in TPU replicas too, so a "
            "`CrossShardOptimizer` in it must take the mean over all replicas, but its reduction "
            f"is {optimizer._reduction!r} and its groups are {optimizer._group_assignment!r}. Wrap "
            "the plain optimizer. If losses are sums, pass "
            "`replicate_model_fn(model_fn, loss_reduction=tf.losses.Reduction.SUM)`."
        )
    return optimizer._opt
