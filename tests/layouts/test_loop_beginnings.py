"""Inference of a loop's layouts begins with what it found there before."""

from unittest import mock

import pytest
import tensorflow.compat.v1 as tf

import bodies
from replicate.compat import graph as graph_lib
from replicate.layouts import SUM, WHOLE, Shard, Source, infer
from replicate.layouts.learnt import Learnt
from replicate.layouts.loops import Loop
from replicate.partition.order import in_order


def _loop():
    """Returns operations with a loop that adds rows, [6, 3], to ones; the `Enter` of the ones."""
    with bodies.control_flow(1):
        x = tf.placeholder(tf.float64, [6, 3])
        ones = tf.ones([6, 3], tf.float64)
        tf.while_loop(lambda i, total: i < 4, lambda i, total: (i + 1, total + x), (0, ones))
    operations = in_order(tf.get_default_graph().get_operations())
    (enter,) = [one for one in operations if one.type == "Enter" and one.inputs[0] is ones]
    return operations, Source(x, 0), enter


def _found(operations, source, begun):
    """Returns layouts; with `begun`, a run found before where values of the loop begin."""
    loop = next(one for one in operations if graph_lib.in_while_loop(one))
    passes = []

    def learnt(*args):
        made = Learnt(*args)
        made.begun = {loop: begun}
        return made

    def one_pass(self, real=Loop._pass):
        passes.append(dict(self.begun))
        return real(self)

    counted = mock.patch.object(Loop, "_pass", one_pass)
    with counted, mock.patch("replicate.layouts.inference.Learnt", learnt):
        return infer(operations, [source], 6), passes


def test_a_loop_begins_as_it_did_before():
    with tf.Graph().as_default():
        operations, source, enter = _loop()
        first, passes = _found(operations, source, {})
        assert passes == [{}, {enter: Shard(0)}]
        again, passes = _found(operations, source, {enter: Shard(0)})
        assert passes == [{enter: Shard(0)}]
        assert again.strategies == first.strategies


def test_a_beginning_that_does_not_fit_any_more_is_dropped():
    with tf.Graph().as_default():
        operations, source, enter = _loop()
        first, _ = _found(operations, source, {})
        again, passes = _found(operations, source, {enter: SUM})
        assert passes[0] == {enter: SUM} and passes[-1] == {enter: Shard(0)}
        assert again.strategies == first.strategies


@pytest.mark.parametrize("size", [None, 1, 6])
def test_a_value_that_may_be_one_row_for_all_does_not_become_rows(size):
    with tf.Graph().as_default(), bodies.control_flow(1):
        x = tf.placeholder(tf.float64, [6, 3])
        row = tf.placeholder(tf.float64, [size, 3])

        def body(i, a, total):
            return i + 1, a + row, total + tf.reduce_sum(row)

        made = tf.while_loop(lambda i, *_: i < 2, body, (0, x, tf.zeros([], tf.float64)))
        operations = in_order(tf.get_default_graph().get_operations())
        layouts = infer(operations, [Source(x, 0)], 6)
        (enter,) = [one for one in operations if one.type == "Enter" and one.inputs[0] is row]
        assert layouts.layout_of(enter.outputs[0]) == (Shard(0) if size == 6 else WHOLE)
        assert layouts.layout_of(made[2]) == (SUM if size == 6 else WHOLE)


def test_a_loop_is_not_inferred_again_for_one_behind_it():
    inferred = []

    def counted(self, real=Loop.infer):
        inferred.append(graph_lib.outermost_loop(self._operations[0])[0])
        return real(self)

    with tf.Graph().as_default(), bodies.control_flow(1):
        x = tf.placeholder(tf.float64, [6, 4, 3])
        for _ in range(3):
            by_time = tf.map_fn(tf.sin, tf.transpose(x, [1, 0, 2]))
            x = tf.transpose(by_time, [1, 0, 2])
        operations = in_order(tf.get_default_graph().get_operations())
        source = Source(operations[0].outputs[0], 0)
        with mock.patch.object(Loop, "infer", counted):
            found = infer(operations, [source], 6)
        assert found.layout_of(x) == Shard(0)
    # Each loop's arrays turn out to be in towers before it, but after the loops before.
    assert len(inferred) == len(set(inferred)) == 3
