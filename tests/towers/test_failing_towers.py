"""An exception in a model reaches the caller as it is, and leaves nothing behind.

After each failure, `check_failure` looks for what it may have left behind; see `bodies.py`.
"""

import threading
import traceback

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import (
    build,
    check_failure,
    control_flow,
    good,
    session,
)


def _one(values):
    return values[0]


@pytest.mark.parametrize("reduction", [tf.losses.Reduction.SUM, tf.losses.Reduction.MEAN])
def test_a_failure_amid_scopes_leaves_the_graph_as_it_was(reduction):
    def body(index, features):
        with tf.variable_scope("inner", regularizer=tf.nn.l2_loss, reuse=tf.AUTO_REUSE), tf.device(
            "/cpu:1"
        ), tf.control_dependencies([features]), tf.variable_creator_scope(lambda make, **kw: 1 / 0):
            tf.add_to_collection("mine", "model's")
            replicate.merge_call(_one, features)
            tf.Variable(1.0)

    check_failure(body, ZeroDivisionError, "division by zero", loss_reduction=reduction)
    assert tf.get_collection("mine") == ["model's"]  # As after a model on one device.


class RefusingError(Exception):
    """An error as before Python 3.11, which takes no notes, and whose arguments are no text."""

    @property
    def add_note(self):
        raise AttributeError


def _decode():
    b"\xff".decode()


def _raise(error):
    raise error


RAISES = {
    "KeyError": lambda: {}["key"],
    "UnicodeDecodeError": _decode,
    "StopIteration": lambda: next(iter([])),
    "KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
    "SystemExit": lambda: _raise(SystemExit(3)),
    "OSError": lambda: _raise(OSError(2, "no such file", "file")),
    "OpError": lambda: _raise(tf.errors.NotFoundError(None, None, "not found")),
    "ValueError": lambda: tf.reshape(tf.ones([3]), [2]),
    "RefusingError": lambda: _raise(RefusingError(1, 2)),
}


@pytest.mark.parametrize("place", ["model", "merge function"])
@pytest.mark.parametrize("act", list(RAISES.values()), ids=list(RAISES))
def test_an_exception_in_a_model(act, place):
    with pytest.raises(BaseException) as expected:
        act()

    def body_of_user(index, features):
        if place == "model":
            act()
        replicate.merge_call(lambda values: act(), features)

    error = check_failure(body_of_user, type(expected.value), "")
    assert type(error) is type(expected.value)
    if not isinstance(error, ValueError):  # TensorFlow's name operations, which are in a scope.
        assert error.args == expected.value.args
    printed = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    assert "in body_of_user\n" in printed  # The user's own frame.
    assert vars(error).get("errno", 2) == 2
    if isinstance(error, SystemExit):
        assert error.code == 3


def _weight(features):
    w = tf.get_variable("w", [], initializer=tf.ones_initializer())
    return w, tf.reduce_mean(w * features)


def _fail(*_, **__):
    raise ArithmeticError("by the user")


def _square(x):
    """Returns `x` squared, whose gradient fails."""

    @tf.custom_gradient
    def square(x):
        return x**2, _fail

    # TensorFlow 1.15 asks the scope, whatever kind its variables have by default.
    with tf.variable_scope(tf.get_variable_scope(), use_resource=True):
        return square(x)


class _FailingOptimizer(tf.train.GradientDescentOptimizer):
    def _prepare(self):
        _fail()


def _train(optimizer, **kwargs):
    w, loss = _weight(tf.ones([2, 1]))
    return replicate.TowerOptimizer(optimizer, **kwargs).minimize(loss * 1, var_list=[w])


def _in_a_transform(index, features):
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    _train(optimizer, transform_gradients=_fail)


def _in_an_optimizer(index, features):
    _train(_FailingOptimizer(0.1))


def _in_a_gradient(index, features):
    w, loss = _weight(features)
    tf.gradients(_square(loss), w)


def _on_a_tape(index, features):
    with tf.GradientTape() as tape:
        w, loss = _weight(features)
        target = _square(loss)
    tape.gradient(target, w)


def _in_a_gradient_of_a_cross_tower_sum(index, features):
    w, loss = _weight(features)
    tf.gradients(replicate.cross_tower_sum(_square(loss)), w)


def _in_a_condition(index, features):
    tf.cond(tf.reduce_mean(features) > 0, lambda: _fail(), lambda: features)


def _in_a_function(index, features):
    tf.function(_fail, autograph=False)(features)


def _in_a_loop_in_a_merge_function(index, features):
    def merge(values):
        return tf.while_loop(lambda i: i < 3, _fail, [0])

    with tf.name_scope("inner"):
        replicate.merge_call(merge, features)


FAILING = {
    "transform": _in_a_transform,
    "optimizer": _in_an_optimizer,
    "gradient": _in_a_gradient,
    "tape": _on_a_tape,
    "gradient of a sum": _in_a_gradient_of_a_cross_tower_sum,
    "condition": _in_a_condition,
    "function": _in_a_function,
    "loop in a merge function": _in_a_loop_in_a_merge_function,
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("body", list(FAILING.values()), ids=list(FAILING))
def test_an_exception_in_the_middle_of_something(body, version):
    with control_flow(version):
        check_failure(body, ArithmeticError, "by the user")


def test_a_model_may_go_on_after_a_merge_function_failed():
    """As it may on one device."""

    def body(index, features):
        for failing in (_fail, lambda values: replicate.cross_tower_sum(values[0])):
            with pytest.raises((ArithmeticError, RuntimeError)):
                replicate.merge_call(failing, features)
        assert replicate.num_towers() == 2
        assert replicate.merge_call(len, features) == 2
        return good(index, features)

    with session() as running:
        train_op = build(body).train_op
        (weight,) = tf.trainable_variables()
        running.run(tf.global_variables_initializer())
        running.run(train_op)
        np.testing.assert_allclose(running.run(weight), 0.875)


def test_models_that_are_built_at_the_same_time():
    """Each thread has towers of its own; one that fails takes nothing from the others."""

    def body(index, features):
        meet.wait(60)
        made = good(index, features)
        meet.wait(60)
        return made

    def failing(index, features):
        meet.wait(60)
        meet.wait(60)
        raise ArithmeticError("by the user")

    def run(name, model):
        with tf.Graph().as_default():
            try:
                train_op = build(model).train_op
            except ArithmeticError:
                done[name] = "failed"
                return
            (weight,) = tf.trainable_variables()
            with session() as running:
                running.run(tf.global_variables_initializer())
                running.run(train_op)
                done[name] = running.run(weight)

    done, meet = {}, threading.Barrier(4)
    models = {"first": body, "second": failing, "third": body}
    threads = [threading.Thread(target=run, args=each, daemon=True) for each in models.items()]
    for thread in threads:
        thread.start()
    meet.wait(60)  # All are in their models: this thread is in none.
    assert replicate.num_towers() == 1
    w = tf.get_variable("w", [])
    assert run_gradient(w, w * 3) == 3
    meet.wait(60)
    for thread in threads:
        thread.join(60)
    assert done == {
        "first": pytest.approx(0.875),
        "second": "failed",
        "third": pytest.approx(0.875),
    }


def run_gradient(x, y):
    (gradient,) = tf.gradients(y, x)
    with session() as running:
        return running.run(gradient)
