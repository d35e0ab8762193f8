"""A pack holds the values of several tensors, and is parted into these again."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from replicate.reduction import packing

VALUES = [np.arange(6.0).reshape(2, 3), np.arange(4.0) - 2, np.array(9.0), np.array([[1.0, 5.0]])]


@pytest.mark.parametrize("part", [packing.part, packing.slices])
def test_a_pack_is_parted_into_what_it_was_made_of(part, fresh_graph):
    joined = packing.join([tf.constant(value) for value in VALUES])
    made = part(joined, [tf.TensorShape(value.shape) for value in VALUES])
    assert joined.shape.as_list() == [sum(value.size for value in VALUES)]
    with tf.Session() as session:
        for got, tensor, value in zip(session.run(made), made, VALUES):
            np.testing.assert_array_equal(got, value)
            assert tensor.shape.as_list() == list(value.shape)
