"""Takes elements from datasets, for tests of input pipelines."""

import numpy as np
import tensorflow.compat.v1 as tf


def take(dataset, count=None):
    """Returns the first `count` elements of a dataset, or all."""
    next_element = tf.data.make_one_shot_iterator(dataset).get_next()
    elements = []
    with tf.Session() as session:
        while count is None or len(elements) < count:
            try:
                elements.append(session.run(next_element))
            except tf.errors.OutOfRangeError:
                break
    return elements


def assert_same(elements, others):
    """Asserts that two lists of elements are equal, number by number."""
    assert len(elements) == len(others)
    tf.nest.map_structure(np.testing.assert_array_equal, elements, others)
