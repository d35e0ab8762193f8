"""A pack holds the values of several tensors, and is parted into these again."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from replicate.reduction import packing

VALUES = [np.arange(6.0).reshape(2, 3), np.arange(4.0) - 2, np.array(9.0), np.array([[1.0, 5.0]])]


@pytest.mark.parametrize("take", [packing.Packing.part, packing.Packing.slices])
def test_a_pack_is_parted_into_its_tensors(take, fresh_graph):
    tensors = [tf.constant(value) for value in VALUES]
    packing_of = packing.Packing()
    joined = packing_of.join(tensors, "/cpu:0")
    shapes = [tf.TensorShape(value.shape) for value in VALUES]
    names = take(packing_of, joined, tf.float64, shapes, "/cpu:1")
    whole, *made = packing_of.make("replicate/", [joined, *names])
    assert whole.shape.as_list() == [sum(value.size for value in VALUES)]
    devices = [tensor.device[-5:].lower() for tensor in (whole, *made)]
    assert devices == ["cpu:0", *["cpu:1"] * len(VALUES)]
    with tf.Session() as session:
        for got, tensor, value in zip(session.run(made), made, VALUES):
            np.testing.assert_array_equal(got, value)
            assert tensor.shape.as_list() == list(value.shape)


def test_without_packs_nothing_is_made(fresh_graph):
    assert packing.Packing().make("replicate/", []) == []
    assert not tf.get_default_graph().get_operations()
