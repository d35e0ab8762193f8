"""Functions of shapes and tensors that layers are made of."""

import functools

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search.search_space_utils import normalize_strides


def merge_shapes_with_broadcast(shape_a, shape_b):
    """Returns the shape of the sum of two tensors.

    Args:
        shape_a: Shape, sequence or `tf.TensorShape`; unknown sizes are None, and so is a shape of
            unknown rank.
        shape_b: The other one's.

    Returns:
        `tf.TensorShape`. Where a size is 1, the other one's counts; where a rank is unknown, the
        other shape does.

    Raises:
        ValueError: If their ranks or sizes do not fit.
    """
    shapes = [tf.TensorShape(shape_a), tf.TensorShape(shape_b)]
    known = [shape for shape in shapes if shape.rank is not None]
    if len(known) < len(shapes):
        return known[0] if known else tf.TensorShape(None)
    try:
        if shapes[0].rank == shapes[1].rank:
            return tf.broadcast_static_shape(*shapes)
    except ValueError:
        pass
    raise ValueError(
        f"Shapes must be of one rank, with sizes that are equal or 1, but are {shapes[0]} and "
        f"{shapes[1]}. Give the layers the same strides and number of channels."
    )


def get_conv_output_shape(shape, strides, filters):
    """Returns the shape of a convolution's output, whose sides are ⌈side / stride⌉.

    Args:
        shape: Shape of the inputs [batch, height, width, channels]; unknown sizes are None.
        strides: Int, or pair (vertical, horizontal).
        filters: Number of channels of the output.

    Returns:
        `tf.TensorShape` of rank 4.
    """
    batch, *sides, _ = tf.TensorShape(shape).as_list()
    sides = [
        None if side is None else -(-side // stride)
        for side, stride in zip(sides, normalize_strides(strides))
    ]
    return tf.TensorShape([batch, *sides, filters])


def create_mask(choices, selection):
    """Makes the mask of a number of channels that was drawn.

    Args:
        choices: Sequence of ints, the numbers to choose from.
        selection: Index of the one drawn, int scalar tensor.

    Returns:
        Float32 [max(choices)]: ones in the first `choices[selection]` places, then zeros.
    """
    return first_ones(tf.gather(list(choices), selection), max(choices))


def first_ones(count, length):
    """Returns ones in the first places of a vector, then zeros; as `tf.sequence_mask`, in less.

    Args:
        count: How many ones, int32 scalar tensor.
        length: Elements of the vector, int.

    Returns:
        Float32 [length].
    """
    return tf.cast(tf.less(np.arange(length, dtype=np.int32), count), tf.float32)


def first_entries(value, sizes):
    """Returns the first entries along each axis, as `tf.slice`; its gradient is fewer operations.

    Args:
        value: Tensor of a known shape.
        sizes: How many for each axis, a sequence of ints or int32 scalar tensors.

    Returns:
        Tensor of the type of `value`.
    """
    with tf.get_default_graph().gradient_override_map({"Slice": _FIRST_ENTRIES}):
        return tf.slice(value, tf.zeros([len(sizes)], tf.int32), tf.stack(sizes))


_FIRST_ENTRIES = "ReplicateNasFirstEntries"


@tf.RegisterGradient(_FIRST_ENTRIES)
def _pad_with_zeros(op, upstream):
    value, begin, sizes = op.inputs
    paddings = tf.stack([begin, value.shape.as_list() - sizes], axis=1)
    return [tf.pad(upstream, paddings), None, None]


def zeros_of_batch(inputs, shape, channels=None):
    """Returns zeros of the type of `inputs`, for as many rows.

    Args:
        inputs: Tensor whose first axis is the batch.
        shape: Shape of the zeros, known except for the first axis, which is ignored.
        channels: Size of the last axis in place of that of `shape`, an int32 scalar tensor. None
            for that of `shape`.
    """
    shape = tf.TensorShape(shape).as_list()[1:]
    rows = inputs.shape.as_list()[0]
    if channels is not None:
        rows = tf.shape(inputs)[0] if rows is None else rows
        return tf.zeros(tf.stack([rows, *shape[:-1], channels]), inputs.dtype)
    if rows is not None:
        return tf.zeros([rows, *shape], inputs.dtype)
    zeros = tf.zeros(tf.concat([tf.shape(inputs)[:1], shape], axis=0), inputs.dtype)
    return tf.ensure_shape(zeros, [None, *shape])


def with_data_dependencies(deps, outputs):
    """Makes tensors wait for others, on engines that ignore control dependencies.

    To each output is added the first element of each dependency, times the smallest normal number
    of the output's type: too little to change anything, as long as dependencies are finite.

    Args:
        deps: List of non-empty tensors of number types. They get no gradient.
        outputs: List of float tensors.

    Returns:
        List of tensors like `outputs`.
    """
    if not deps:
        return list(outputs)

    @functools.lru_cache(maxsize=None)  # One constant for all tensors of a rank.
    def vector_of(number, rank):
        return tf.fill([rank], number)

    def first_of(dep):
        rank = dep.shape.rank
        return tf.reshape(tf.slice(dep, vector_of(0, rank), vector_of(1, rank)), [])

    firsts = [tf.stop_gradient(first_of(dep)) for dep in deps]

    @functools.lru_cache(maxsize=None)
    def tiny_sum(dtype):
        tiny = 2e-38 if dtype == tf.bfloat16 else np.finfo(dtype.as_numpy_dtype).tiny
        total = tf.add_n([tf.cast(first, dtype) for first in firsts])
        return total * tf.constant(tiny, dtype)

    return [output + tiny_sum(output.dtype) for output in outputs]


def largest(dicts):
    """Merges dicts of scalars; where several have the same key, the largest counts."""
    merged = {}
    for each in dicts:
        for key, value in each.items():
            merged[key] = tf.maximum(merged[key], value) if key in merged else value
    return merged
