"""Graphs that `model_fn` changes once they are built: operations take what is made after them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from partition import harness
from partition.orders import ROWS, assert_alike, ran_of
from replicate.compat import partitioning
from replicate.partition.order import in_order


def rounded(activation):
    """Puts what quantises an activation between it and all that takes it, as rewriters do."""
    takers = [
        (taker, index)
        for taker in activation.consumers()
        for index, tensor in enumerate(taker.inputs)
        if tensor is activation
    ]
    peak = tf.get_variable("peak", [], initializer=tf.zeros_initializer(), trainable=False)
    moved = tf.assign(peak, 0.5 * peak + 0.5 * tf.reduce_max(tf.abs(activation)))
    with tf.control_dependencies([moved]):
        made = tf.quantization.fake_quant_with_min_max_vars(activation, -moved, moved)
    for taker, index in takers:
        partitioning.take(taker, index, made)


@pytest.mark.parametrize("resource", [False, True], ids=["reference", "resource"])
def test_what_is_inserted_afterwards_runs_in_towers(resource):
    def model_fn(features, labels, mode):
        tf.get_variable_scope().set_use_resource(resource)
        w = tf.get_variable("w", [4, 3], initializer=tf.ones_initializer())
        h = tf.tanh(features @ w)
        loss = tf.reduce_mean(tf.square(h)) + tf.reduce_mean(h) * tf.reduce_max(h)
        rounded(h)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    assert_alike(ran_of(model_fn, ROWS, steps=3))
    with harness.mechanism() as made, tf.Graph().as_default():
        rows = tf.placeholder(tf.float32, [None, 4])
        harness.replicated(model_fn, 3)(rows, None, mode="train")
        copied = [operation.type for operation in made[0].plan.copied]
    assert "FakeQuantWithMinMaxVars" in copied and copied.count("MatMul") >= 2


def test_an_update_that_is_inserted_afterwards_comes_after_reads():
    """The gradient leads to the update by way of what is made last."""

    def model_fn(features, labels, mode):
        tf.get_variable_scope().set_use_resource(True)
        w = tf.get_variable("w", [4, 3], initializer=tf.ones_initializer())
        late = tf.identity(tf.zeros([]), name="late")
        loss = tf.reduce_mean(tf.square(features @ w)) + late
        with tf.control_dependencies([loss]):
            read = w.read_value()
        update = tf.assign_sub(w, 0.1 * read)
        with tf.control_dependencies([update]):
            partitioning.take(late.op, 0, tf.constant(3.0))
        again = tf.reduce_sum(tf.square(features @ (w + 1.0)))
        partitioning.take(late.op, 0, again)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update)

    assert_alike(ran_of(model_fn, ROWS, steps=3))


def test_each_operation_follows_what_leads_to_it():
    with tf.Graph().as_default() as graph:
        first = tf.constant(1.0, name="first")
        taker = tf.negative(first, name="taker")
        total = tf.while_loop(lambda i: i < 3.0, lambda i: i + taker, [0.0])
        after = tf.identity(total, name="after")
        middle = tf.square(first, name="middle")
        partitioning.take(taker.op, 0, middle)
        made = graph.get_operations()
        sorted_ones = in_order(made)
        assert in_order(sorted_ones) == sorted_ones
        assert sorted(one.name for one in sorted_ones) == sorted(one.name for one in made)
        place = {one: index for index, one in enumerate(sorted_ones)}
        for one in made:
            for tensor in one.inputs:
                if tensor.op.type != "NextIteration":
                    assert place[tensor.op] < place[one], (tensor.name, one.name)
        assert place[middle.op] < place[taker.op] < place[after.op]
        assert np.all([one in place for one in made])
