"""Gradients through `tf.py_function`, whose tapes TensorFlow keeps by name.

In the graph of a batch, a function is called once; in programs of towers, each tower calls it.
"""

import threading

import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

import contract
import replicate
from contract.models import F64, get_variable, optimizer, spec, step

pytestmark = pytest.mark.conformance


def _record(loss_of, num_towers, batches, per_tower=False):
    def model_fn(features, labels, mode, params):
        errors = features["x"] @ get_variable("w", [4, 1]) - labels
        loss = loss_of(errors)
        loss.set_shape([])
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    return contract.record_plain(
        model_fn, num_towers, batches, replicate.TowerOptimizer, per_tower=per_tower
    )


def _mean(errors):
    return tf.py_function(lambda e: tf2.reduce_mean(e**2), [errors], F64)


def _of_rows(errors):
    squares = tf.py_function(lambda e: e**2, [errors], F64)
    squares.set_shape(errors.shape)
    return tf.reduce_mean(squares)


def _two_after_each_other(errors):
    twice = tf.py_function(lambda e: 2.0 * e, [errors], F64)
    return tf.py_function(lambda e: tf2.reduce_mean(e**2), [twice], F64) + _of_rows(errors)


@pytest.mark.parametrize("batches", ["EVEN", "UNEVEN"])
@pytest.mark.parametrize("per_tower", [False, True])
@pytest.mark.parametrize("loss_of", [_mean, _of_rows, _two_after_each_other])
def test_each_tower_goes_back_through_what_it_called(loss_of, per_tower, batches):
    batches = getattr(contract, batches)
    got = _record(loss_of, 3, batches, per_tower)
    contract.assert_same_run(got, _record(loss_of, 1, batches))


def test_the_graph_of_a_batch_calls_once():
    rows = []

    def mean(errors):
        rows.append(len(errors))
        return tf2.reduce_mean(errors**2)

    _record(lambda errors: tf.py_function(mean, [errors], F64), 3, contract.UNEVEN)
    assert rows == [11, 11, 11]


def test_towers_that_call_before_any_of_them_goes_back():
    """All wait for each other, so that tapes of one name would be one."""
    barrier = threading.Barrier(2)
    waits = []

    def meet(errors):
        if waits:
            barrier.wait(timeout=60)
        return tf2.reduce_mean(errors**2)

    def loss_of(errors):
        return tf.py_function(meet, [errors], F64)

    want = _record(loss_of, 1, contract.UNEVEN)
    waits.append(True)
    contract.assert_same_run(_record(loss_of, 2, contract.UNEVEN, per_tower=True), want)


def test_tokens_are_the_towers_own():
    def model_fn(features, labels, mode, params):
        errors = features["x"] @ get_variable("w", [4, 1]) - labels
        loss = _mean(errors)
        loss.set_shape([])
        return spec(mode, loss, optimizer(params).minimize(loss, step()))

    with tf.Graph().as_default() as graph:
        rows = tf.data.make_one_shot_iterator(contract.dataset(contract.UNEVEN)).get_next()
        params = contract.make_params(wrap=replicate.TowerOptimizer)
        contract.replicated(model_fn, 3, per_tower=True)(*rows, mode="train", params=params)
    called = [op for op in graph.get_operations() if op.type == "EagerPyFunc"]
    assert len({op.get_attr("token") for op in called}) == len(called) == 6
