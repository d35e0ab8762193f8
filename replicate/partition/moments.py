"""Rewrites fused batch norm, so that each tower normalizes its rows by the moments of all rows.

Forward, mean and variance are computed as means over rows and passed to the kernel, as in
evaluation. Backward, with M entries per channel and z = (x - mean) / deviation, gradients are those
of Ioffe and Szegedy, "Batch Normalization", 2015:

    d offset = Σ dy    d scale = Σ dy z    dx = scale / deviation (dy - (d offset + z d scale) / M)

The gradient kernel for given moments returns both sums, and scale / deviation dy. So towers only
exchange a few numbers per channel, and no activation leaves its tower.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterable, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import partitioning
from replicate.graphs import ancestors
from replicate.layouts import Source, takes_moments
from replicate.partition.lower import Lowered

_GRADIENTS = {
    "FusedBatchNorm": "FusedBatchNormGrad",
    "FusedBatchNormV2": "FusedBatchNormGradV2",
    "FusedBatchNormV3": "FusedBatchNormGradV3",
}
_RESERVED = 3  # The outputs from this index on are reserved for the gradient.


def differentiated(operations: Sequence[Any], losses: Iterable[Any]) -> set[Any]:
    """Returns the fused batch norms whose gradients a loss is computed from.

    TensorFlow writes out the gradient of such a gradient, with means over rows. These are those of
    all rows, so the kernel cannot take the moments of a tower's.

    Args:
        operations: The operations of the graph.
        losses: The losses.
    """
    gradients = [one for one in operations if one.type in _GRADIENTS.values()]
    leading = ancestors(losses) if gradients else frozenset()
    # The gradient takes what the norm has reserved for it.
    found = {one.inputs[_RESERVED].op for one in gradients if one in leading}
    if found:
        tf.logging.info(
            "replicate: fused batch norm takes the moments of all rows (%d operations), since a "
            "loss is computed from its gradient.",
            len(found),
        )
    return found


def write_out(
    operations: Sequence[Any], sources: Sequence[Source], only: Collection[Any] | None = None
) -> Lowered:
    """Rewrites fused batch norm of rows in training.

    A kernel is left as it is if it is in a loop or branch, updates moving averages itself, has an
    input of unknown rank, or gives its reserved outputs to anything other than its gradient.

    Args:
        operations: The operations of the graph, in topological order.
        sources: The tensors of the batch.
        only: The operations to rewrite; None for all.
    """
    instead: dict[Any, Any] = {}  # By reference of a tensor.
    replaced: dict[Any, list[Any]] = {}

    def replace(operation: Any, function: Callable[..., list[Any]], *moments: Any) -> list[Any]:
        made, replaced[operation] = _made(operation, function, *moments)
        for tensor, other in zip(operation.outputs, made):
            instead[graph_lib.reference(tensor)] = other
        partitioning.replace(zip(operation.outputs, made))
        return made

    with_rows = {source.tensor.op for source in sources}
    for operation in operations:
        if not with_rows.isdisjoint(tensor.op for tensor in operation.inputs):
            with_rows.add(operation)
    for operation in operations:
        if not _can_be(operation) or operation.inputs[0].op not in with_rows:
            continue
        if only is not None and operation not in only:
            continue
        gradients = _gradients(operation)
        mean, variance = replace(operation, _forward)[_RESERVED : _RESERVED + 2]
        for gradient in gradients:
            replace(gradient, _backward, mean, variance)
    left = [operation for operation in operations if operation not in replaced]
    left += [one for made in replaced.values() for one in made]
    for operation in left if replaced else ():
        partitioning.wait_instead(operation, replaced)

    def now(asked: Any) -> Any:
        is_tensor = isinstance(asked, tf.Tensor)
        return instead.get(graph_lib.reference(asked), asked) if is_tensor else asked

    return Lowered(left if replaced else operations, now)


def _can_be(operation: Any) -> bool:
    if not takes_moments(operation):
        return False
    # An attribute of newer versions of the operation.
    adds_by_itself = "exponential_avg_factor" in operation.node_def.attr and (
        operation.get_attr("exponential_avg_factor") != 1
    )
    gradients = _gradients(operation)
    reserved = [one for tensor in operation.outputs[_RESERVED:] for one in tensor.consumers()]
    takers = {one for one in reserved if one.type != "ZerosLike"}
    around = [operation, *gradients]
    return (
        not adds_by_itself
        and operation.inputs[0].shape.rank is not None
        and takers == set(gradients)
        and not any(graph_lib.is_in_control_flow(one) for one in around)
    )


def _gradients(operation: Any) -> list[Any]:
    wanted = _GRADIENTS[operation.type]
    found = [one for one in operation.outputs[_RESERVED].consumers() if one.type == wanted]
    return list(dict.fromkeys(found))


def _made(
    operation: Any, function: Callable[..., list[Any]], *moments: Any
) -> tuple[list[Any], list[Any]]:
    """Returns the tensors by which a function replaces an operation, and all new operations."""
    graph = operation.graph
    first, device = graph_lib.count(graph), tf.device(str(operation.device))
    scope, waits = tf.name_scope(f"{operation.name}/written_out/"), operation.control_inputs
    with graph_lib.outside_of_scopes(graph), device, scope, tf.control_dependencies(waits):
        made = function(operation, *moments)
    return made, graph.get_operations()[first:]


def _forward(operation: Any) -> list[Any]:
    x, scale, offset = operation.inputs[:3]
    entries, axes = tf.cast(x, scale.dtype), _axes_of_entries(operation, x)
    count = _count(x, scale)
    mean = tf.reduce_sum(entries, axes) / count
    squares = tf.math.squared_difference(entries, _along_channels(operation, mean, x))
    total = tf.reduce_sum(squares, axes)
    variance = total / count
    kernel = _kernel(operation.type, operation, x, scale, offset, mean, variance)
    # The variance for moving averages has Bessel's correction.
    unbiased = total / tf.maximum(count - 1.0, 1.0)
    return [kernel[0], mean, unbiased, mean, variance, *kernel[5:]]


def _backward(operation: Any, mean: Any, variance: Any) -> list[Any]:
    scale, dtype = operation.inputs[2], operation.inputs[1].dtype
    # The sum of two terms, which may be large where it is small. It is rounded once, as by the
    # kernel of one device.
    dy, x = (tf.cast(tensor, scale.dtype) for tensor in operation.inputs[:2])
    further = {"reserve_space_3": operation.inputs[5]} if len(operation.inputs) > 5 else {}
    epsilon = operation.get_attr("epsilon")
    # For given moments, the kernel wants the channels last.
    data_format, rank = _format(operation), x.shape.rank
    is_first = data_format.startswith("NC")
    last, back = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    kernel = getattr(tf.raw_ops, operation.type)(
        y_backprop=tf.transpose(dy, last) if is_first else dy,
        x=tf.transpose(x, last) if is_first else x,
        scale=scale,
        reserve_space_1=mean,
        reserve_space_2=variance,
        epsilon=epsilon,
        data_format=f"N{data_format[2:]}C" if is_first else data_format,
        is_training=False,
        **further,
    )
    direct, d_scale, d_offset = kernel[:3]
    direct = tf.transpose(direct, back) if is_first else direct
    deviation = tf.sqrt(variance + epsilon)
    each = -scale / (deviation * _count(x, scale))
    # each (d offset + z d scale), by the kernel, which is faster than a product and a sum.
    name = operation.type.replace("Grad", "")
    rest = _kernel(name, operation, x, each * d_scale, each * d_offset, mean, variance)
    # In training, the kernel has no gradients of given moments.
    nothing = [tf.zeros([0], tensor.dtype) for tensor in operation.outputs[3:]]
    return [tf.cast(direct + rest[0], dtype), d_scale, d_offset, *nothing]


def _kernel(
    name: str, operation: Any, x: Any, scale: Any, offset: Any, mean: Any, variance: Any
) -> Any:
    """Returns the outputs of the kernel for given moments."""
    return getattr(tf.raw_ops, name)(
        x=x,
        scale=scale,
        offset=offset,
        mean=mean,
        variance=variance,
        epsilon=operation.get_attr("epsilon"),
        data_format=_format(operation),
        is_training=False,
    )


def _format(operation: Any) -> str:
    return str(operation.get_attr("data_format").decode())


def _channels(operation: Any, x: Any) -> int:
    return 1 if _format(operation).startswith("NC") else int(x.shape.rank) - 1


def _axes_of_entries(operation: Any, x: Any) -> list[int]:
    return [axis for axis in range(x.shape.rank) if axis != _channels(operation, x)]


def _along_channels(operation: Any, values: Any, x: Any) -> Any:
    """Reshapes a vector with an entry for each channel, so that it is broadcast to `x`."""
    behind = x.shape.rank - 1 - _channels(operation, x)
    return tf.reshape(values, [-1, *[1] * behind]) if behind else values


def _count(x: Any, of_channels: Any) -> Any:
    """Returns the number of entries per channel, a scalar of the moments' dtype."""
    return tf.cast(tf.size(x) // tf.size(of_channels), of_channels.dtype)
