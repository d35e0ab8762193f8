"""Python does not look for garbage while towers are built."""

import gc

import pytest
import tensorflow.compat.v1 as tf

import replicate
from replicate.graphs import uncollected


@pytest.fixture(autouse=True)
def switched_on():
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


def build(model_fn):
    devices = ["/cpu:0", "/cpu:1"]
    with tf.Graph().as_default():
        tf.train.create_global_step()
        x = tf.zeros([4, 1])
        replicate.replicate_model_fn(model_fn, devices=devices)(features=x, labels=x, mode="train")


def test_it_is_off_while_a_model_is_built_and_on_after_that():
    seen = []

    def model_fn(features, labels, mode):
        seen.append(gc.isenabled())
        loss = tf.reduce_mean((features * tf.get_variable("w", []) - labels) ** 2)
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    build(model_fn)
    assert seen == [False]
    assert gc.isenabled()


def test_it_is_on_after_an_error():
    def model_fn(features, labels, mode):
        raise KeyError("of the user")

    with pytest.raises(KeyError, match="of the user"):
        build(model_fn)
    assert gc.isenabled()


def test_a_program_that_has_it_off_keeps_it_off():
    gc.disable()
    with uncollected(), uncollected():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_a_scope_within_a_scope_leaves_it_off():
    with uncollected():
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
