"""Costs of operations equal the counts by their definitions, in loops and with symbols."""

import pytest
import tensorflow.compat.v1 as tf

from replicate.layouts import rule
from replicate.layouts.costs import MULTIPLIES, Costs
from replicate.layouts.dims import ROWS, symbol, times
from replicate.layouts.facts import Facts


def cost(make):
    tensor = make()
    return Costs(Facts(symbol(ROWS)), {ROWS: 10}).cost_of(tensor.op)


def ones(*shape):
    return tf.ones(shape)


RAW = tf.raw_ops
IMAGES, FILTER = (8, 12, 12, 3), (5, 5, 3, 7)
PLACES = 8 * 12 * 12  # Where the filter is put to, with padding 'SAME'.
SAME = {"strides": [1, 1, 1, 1], "padding": "SAME"}
OPERATIONS = {
    "MatMul": (lambda: ones(4, 5) @ ones(5, 6), 2 * 4 * 5 * 6),
    "transposed": (lambda: tf.matmul(ones(5, 4), ones(6, 5), True, True), 2 * 4 * 5 * 6),
    "BatchMatMulV2": (lambda: ones(3, 4, 5) @ ones(3, 5, 6), 2 * 3 * 4 * 5 * 6),
    "Conv2D": (
        lambda: RAW.Conv2D(input=ones(*IMAGES), filter=ones(*FILTER), **SAME),
        2 * PLACES * 5 * 5 * 3 * 7,
    ),
    "Conv2DBackpropInput": (
        lambda: RAW.Conv2DBackpropInput(
            input_sizes=IMAGES, filter=ones(*FILTER), out_backprop=ones(8, 12, 12, 7), **SAME
        ),
        2 * PLACES * 5 * 5 * 3 * 7,
    ),
    "Conv2DBackpropFilter": (
        lambda: RAW.Conv2DBackpropFilter(
            input=ones(*IMAGES), filter_sizes=FILTER, out_backprop=ones(8, 12, 12, 7), **SAME
        ),
        2 * PLACES * 5 * 5 * 3 * 7,
    ),
    "DepthwiseConv2dNative": (
        lambda: RAW.DepthwiseConv2dNative(
            input=ones(*IMAGES), filter=ones(5, 5, 3, 2), strides=[1, 1, 1, 1], padding="SAME"
        ),
        2 * PLACES * 5 * 5 * 3 * 2,
    ),
    "Einsum": (
        lambda: RAW.Einsum(inputs=[ones(4, 5, 6), ones(6, 7)], equation="...i,ij->...j"),
        2 * 4 * 5 * 6 * 7,
    ),
    "Tanh": (lambda: tf.tanh(ones(4, 5)), 20),
    "Sum": (lambda: tf.reduce_sum(ones(4, 5)), 20),
    "Add": (lambda: ones(4, 5) + ones(5), 20),
    "Transpose": (lambda: tf.transpose(ones(4, 5)), 0),
    "Shape": (lambda: tf.shape(tf.placeholder(tf.float32, [None, 5])), 0),
    "integers": (lambda: tf.range(4) + 1, 0),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_counted(name):
    make, expected = OPERATIONS[name]
    assert cost(make) == expected


def test_sizes_that_the_graph_does_not_know():
    facts, rows = Facts(symbol(ROWS)), tf.placeholder(tf.float32, [None, None, 4])
    facts.put(rows, 0, 2)
    costs = Costs(facts, {ROWS: 10}, typical=3)
    assert costs.cost_of(tf.exp(rows).op) == 2 * 10 * 3 * 4
    assert costs.size(times(5, symbol("any"))) == 15


def test_what_multiplies_is_in_the_table():
    with_rule = {*rule.rules(), *rule.pointing_rules()}
    assert all(map(rule.reason_of, MULTIPLIES - with_rule))
