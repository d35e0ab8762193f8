"""Sizes that are computed from numbers of rows, in place of those that operations would measure."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from replicate.layouts import ROWS, Monomial
from replicate.partition.rows import Formulas, Rows

COUNTS = [3, 2]


def formulas():
    counts = [tf.placeholder(tf.int32, []) for _ in COUNTS]
    total = tf.placeholder(tf.int32, [])
    made = Formulas(Rows(counts, total, counts, counts), lambda name: tf.placeholder(tf.int32, []))
    return made, total


def value(*entries, shape):
    made = np.empty(len(entries), object)
    made[:] = entries
    return made.reshape(shape)


@pytest.mark.parametrize(
    ("entries", "shape", "types"),
    [
        ((Monomial(1, (ROWS,)),), (), []),
        ((Monomial(4, (ROWS,)),), (), ["Mul"]),
        ((Monomial(1, (ROWS,)), 7), (2,), ["Pack"]),
        ((Monomial(2, (ROWS,)), 7), (1, 2), ["Mul", "Pack", "Reshape"]),
        ((5, 7), (2,), []),
    ],
)
def test_a_formula_needs_few_operations(entries, shape, types):
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        made, total = formulas()
        before = graph.get_operations()
        found = made.whole(value(*entries, shape=shape), tf.int32, tf.TensorShape(shape))
        added = [one.type for one in graph.get_operations() if one not in before]
        assert sorted(one for one in added if one != "Const") == types
        assert found.shape == shape
        expected = [
            entry if isinstance(entry, int) else entry.coefficient * sum(COUNTS)
            for entry in entries
        ]
        got = session.run(found, {total: sum(COUNTS)})
        np.testing.assert_array_equal(got, np.reshape(expected, shape))
