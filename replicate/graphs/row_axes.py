"""Where operations leave the axis of rows, of tensors that have it elsewhere than first.

Such are time-major tensors, of shape [time, n, ...], and what is made of them. Axes are counted
from 0. The axis is None of what has no rows, or of which it is not known.
"""

import tensorflow.compat.v1 as tf

from replicate.graphs import row_shapes

# Over the last axis, of whatever that is.
_OVER_THE_LAST = ("Softmax", "LogSoftmax", "BiasAdd")


def after(op, tensor, axes):
    """Returns the axis of rows of an output of any operation but reductions.

    Args:
        op: The operation.
        tensor: Its output.
        axes: The axes of rows of its inputs.
    """
    if op.type in row_shapes.ELEMENTWISE or op.type == "BiasAdd":
        return _elementwise(op, tensor, axes)
    if op.type == "Transpose":
        order = tf.get_static_value(op.inputs[1])
        return None if order is None or axes[0] is None else order.tolist().index(axes[0])
    if op.type == "StridedSlice":
        return _sliced(op, axes[0])
    if op.type in ("ExpandDims", "Squeeze"):
        return _reshaped(op, axes[0])
    if op.type in ("GatherV2", "ResourceGather", "Gather") and axes[0] is None:
        return axes[1] if _gathers_first_axis(op) else None
    if op.type == "OneHot":
        return axes[0] if op.get_attr("axis") == -1 and set(axes[1:]) == {None} else None
    return None


def reduced(op, axis):
    """Returns the axis of rows after a reduction over others; None if it is over rows.

    Args:
        op: The operation.
        axis: The axis of its input.
    """
    rank, over = op.inputs[0].shape.rank, tf.get_static_value(op.inputs[1])
    over = [each % rank for each in (over.tolist() if over.ndim else [int(over)])]
    if axis in over:
        return None
    return axis if op.get_attr("keep_dims") else axis - sum(each < axis for each in over)


def _elementwise(op, tensor, axes):
    ranks = [given.shape.rank for given in op.inputs]
    if None in ranks or tensor.shape.rank is None:
        return None
    if op.type == "Select" and len(set(ranks)) > 1:
        return None  # Which puts axis 0 of a condition of rank 1 first.
    # Shapes are broadcast from the last axis on.
    from_last = {axis - rank for axis, rank in zip(axes, ranks) if axis is not None}
    if len(from_last) != 1:
        return None
    (axis,) = from_last
    if op.type in _OVER_THE_LAST and axis == -1:
        return None
    if op.type == "BiasAdd" and op.get_attr("data_format") != b"NHWC":
        return None
    return axis + tensor.shape.rank


def _sliced(op, axis):
    masks = {
        name: op.get_attr(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "shrink_axis", "new_axis")
    }
    strides = tf.get_static_value(op.inputs[3])
    if strides is None or masks["ellipsis"] or masks["new_axis"]:
        return None
    if axis < len(strides):
        takes_all = masks["begin"] >> axis & masks["end"] >> axis & 1 and strides[axis] == 1
        if not takes_all or masks["shrink_axis"] >> axis & 1:
            return None
    return axis - bin(masks["shrink_axis"] & ((1 << axis) - 1)).count("1")


def _reshaped(op, axis):
    rank = op.inputs[0].shape.rank
    if rank is None:
        return None
    if op.type == "ExpandDims":
        place = tf.get_static_value(op.inputs[1])
        return None if place is None else axis + (int(place) % (rank + 1) <= axis)
    gone = [each % rank for each in op.get_attr("squeeze_dims")]
    return None if not gone or axis in gone else axis - sum(each < axis for each in gone)


def _gathers_first_axis(op):
    if op.type != "GatherV2":
        return not op.get_attr("batch_dims") if op.type == "ResourceGather" else True
    place = tf.get_static_value(op.inputs[2])
    return place is not None and int(place) == 0 and not op.get_attr("batch_dims")
