"""Shapes, masks, and dependencies through data."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib import layers as lib


@pytest.mark.parametrize(
    ("shape_a", "shape_b", "want"),
    [
        ([2, 3], [2, 3], [2, 3]),
        ([2, 1, 4], [1, 3, 1], [2, 3, 4]),
        ([None, 3], [2, 3], [2, 3]),
        ([None, 1], [1, None], [None, None]),
        ([], [], []),
    ],
)
def test_broadcasts(shape_a, shape_b, want):
    assert lib.merge_shapes_with_broadcast(shape_a, shape_b).as_list() == want
    assert lib.merge_shapes_with_broadcast(tf.TensorShape(shape_b), shape_a).as_list() == want


def test_of_a_shape_of_unknown_rank_the_other_one_counts():
    for shape in ([2, None], None):
        unknown = tf.TensorShape(None)
        for pair in ((shape, unknown), (unknown, shape)):
            merged = lib.merge_shapes_with_broadcast(*pair)
            assert merged.rank == (None if shape is None else 2)
            assert shape is None or merged.as_list() == shape


@pytest.mark.parametrize(("shape_a", "shape_b"), [([2], [3]), ([2, 3], [3])])
def test_shapes_that_do_not_fit_are_refused(shape_a, shape_b):
    with pytest.raises(ValueError, match="Shapes must be of one rank, with sizes that are equal"):
        lib.merge_shapes_with_broadcast(shape_a, shape_b)


@pytest.mark.parametrize(
    ("strides", "want"), [(1, [None, 7, 8, 5]), (2, [None, 4, 4, 5]), ((3, 1), [None, 3, 8, 5])]
)
def test_sides_of_convolutions_are_rounded_up(strides, want):
    assert lib.get_conv_output_shape([None, 7, 8, 3], strides, 5).as_list() == want
    unknown = lib.get_conv_output_shape([None, None, 8, 3], strides, 5).as_list()
    assert unknown == [None, None, *want[2:]]


@pytest.mark.parametrize(
    ("selection", "want"), [(0, [1, 1, 0, 0, 0]), (1, [1, 1, 1, 1, 1]), (2, [1, 0, 0, 0, 0])]
)
def test_masks_of_widths(selection, want):
    mask = lib.create_mask([2, 5, 1], tf.constant(selection))
    assert (mask.dtype, mask.shape.as_list()) == (tf.float32, [5])
    with tf.Session() as session:
        assert session.run(mask).tolist() == want


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_data_dependencies_change_nothing_but_the_order(dtype):
    counter = tf.get_variable("counter", [], tf.int32, tf.zeros_initializer(), use_resource=True)
    deps = [counter.assign(7), tf.fill([2, 3], 1e3), tf.placeholder(tf.float32, [4])]
    outputs = [tf.constant([1.0, -2.5, 3e-20], dtype), tf.constant(-1e30, dtype)]
    waiting = lib.with_data_dependencies(deps, outputs)
    assert [each.dtype.name for each in waiting] == [dtype] * 2
    assert tf.gradients(waiting, deps[1:]) == [None, None]
    gradient = tf.gradients(waiting[1], outputs[1])[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for wait, output in zip(waiting, outputs):
            values = session.run([wait, output, gradient], {deps[2]: np.ones([4])})
            np.testing.assert_array_equal(values[0], values[1])
            assert values[2] == 1
        assert session.run(counter) == 7
        with pytest.raises(tf.errors.InvalidArgumentError, match="Placeholder"):
            session.run(waiting[0])  # Each output waits for all.


def test_no_data_dependencies():
    outputs = [tf.constant(1.0)]
    assert lib.with_data_dependencies([], outputs) == outputs
