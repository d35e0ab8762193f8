"""Optimizers that are not wrapped train as on one device; what only one tower knows trains nothing.

Gradients are gathered where they are made, so it does not matter who applies them.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import TRAIN, build, control_flow, good, matching, session, spec
from versions import legacy

TRAINED = (
    "What is trained must be updated by the gradients of all towers…'w:0' is updated by…"
    "test_unwrapped_optimizers.py…from the rows of one tower…"
    "`optimizer = replicate.TowerOptimizer(optimizer)`…`replicate.cross_tower_sum`"
)
CHOSEN = (
    "Gradients of variables are those of the whole batch…'w:0' is combined with what one tower's"
    "…Switch…test_unwrapped_optimizers.py…`replicate.cross_tower_sum`"
)
ROWS = np.array([[1.0], [2.0], [6.0], [3.0], [-8.0]], np.float32)  # Over two towers: 3 and 2 rows.


class HandAssigning(tf.train.Optimizer):
    """An optimizer that updates by itself, as BERT's does."""

    def __init__(self):
        super().__init__(False, "HandAssigning")

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return tf.group(*[variable.assign(variable - g) for g, variable in grads_and_vars])


OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(),
    "keras": lambda: legacy.SGD(0.1),
    "hand-assigning": HandAssigning,
}


def _weight(name="w", **kwargs):
    return tf.get_variable(name, [], initializer=tf.ones_initializer(), **kwargs)


def _train(optimizer, features, name="w", **kwargs):
    w = _weight(name, **kwargs)
    loss = tf.reduce_mean(tf.square(w * features - 1))
    if hasattr(optimizer, "get_updates"):
        return tf.group(optimizer.get_updates(loss, [w]))
    return optimizer.apply_gradients(optimizer.compute_gradients(loss, [w]))


def trained(body, num_towers, **kwargs):
    """Returns the values of all weights after each of three steps."""
    with tf.Graph().as_default(), session(2) as running:
        train_op = build(body, tf.constant(ROWS), num_towers=num_towers, **kwargs).train_op
        weights = tf.trainable_variables()
        running.run(tf.global_variables_initializer())
        return [(running.run(train_op), running.run(weights))[1] for _ in range(3)]


def check_like_one_device(body, **kwargs):
    want = trained(body, 1)
    assert np.any(want[0] != np.ones_like(want[0]))
    np.testing.assert_allclose(trained(body, 2, **kwargs), want, rtol=1e-5)


@pytest.mark.parametrize("kwargs", [{}, {"use_resource": False}], ids=["resource", "ref"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "beside a wrapped one"])
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS.values()), ids=list(OPTIMIZERS))
def test_an_optimizer_that_is_not_wrapped(optimizer, wrapped, kwargs):
    if kwargs and hasattr(optimizer(), "get_updates"):
        kwargs = {}  # Keras takes no other variables.

    def body(index, features):
        other = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
        before = [_train(other, features, "v")] if wrapped else []
        return spec(TRAIN, train_op=tf.group(before, _train(optimizer(), features, **kwargs)))

    check_like_one_device(body)


def _apply_if(make_condition, make_gradients):
    def body(index, features):
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        w = _weight()
        loss = tf.reduce_mean(tf.square(w * features - 1))
        grads = make_gradients(optimizer, loss, w)
        update = tf.cond(
            # replicate: ignore[applied-in-condition]
            make_condition(loss),
            lambda: optimizer.apply_gradients(grads),
            lambda: tf.no_op(),
        )
        return spec(TRAIN, loss, update)

    return body


def _computed(optimizer, loss, w):
    return optimizer.compute_gradients(loss, [w])


def _by_hand(optimizer, loss, w):
    return [(loss * 0.5, w)]


def _of_tower(loss):
    return loss > 0


def _of_all(loss):
    return replicate.cross_tower_mean(loss) > 0


@pytest.mark.parametrize("version", [1, 2])
def test_an_optimizer_that_is_not_wrapped_in_a_condition(version):
    with control_flow(version):
        check_like_one_device(_apply_if(_of_all, _computed))


@pytest.mark.parametrize(
    ("condition", "gradients", "version", "phrases"),
    [
        (_of_tower, _computed, 1, CHOSEN),
        (_of_tower, _computed, 2, TRAINED),
        (_of_all, _by_hand, 1, TRAINED),
        (_of_all, _by_hand, 2, TRAINED),
    ],
)
def test_rows_of_one_tower_in_a_condition(condition, gradients, version, phrases):
    with control_flow(version), pytest.raises(ValueError, match=matching(phrases)):
        build(_apply_if(condition, gradients))


def test_an_optimizer_that_is_not_wrapped_and_variables_from_before():
    def body(index, features):
        return spec(TRAIN, train_op=_train(OPTIMIZERS["sgd"](), features))

    def trained_before(num_towers):
        with tf.Graph().as_default(), tf.variable_scope("", reuse=tf.AUTO_REUSE):
            w = _weight()
            made = build(body, tf.constant(ROWS), num_towers=num_towers)
            with session(2) as running:
                running.run(tf.global_variables_initializer())
                running.run(made.train_op)
                return running.run(w)

    assert trained_before(2) == pytest.approx(trained_before(1)) != 1


def _optimize_by_hand(wrap):
    def body(index, features):
        w = _weight()
        optimizer = wrap(tf.train.GradientDescentOptimizer(0.1))
        return spec(TRAIN, train_op=optimizer.apply_gradients([(tf.reduce_mean(features), w)]))

    return body


def _assign(index, features):
    return spec(TRAIN, train_op=_weight().assign(tf.reduce_mean(features)))


def _scatter(index, features):
    w = tf.get_variable("w", [3], initializer=tf.ones_initializer())
    update = tf.scatter_nd_update(w, [[0]], tf.reduce_mean(features)[None])
    return spec(TRAIN, train_op=tf.group(update))


def _in_a_function(index, features):
    w = _weight()

    @tf.function
    def update(x):
        w.assign(tf.reduce_mean(x))
        return w.read_value()

    return spec(TRAIN, train_op=update(features).op)


BY_ROWS = {
    "assignment": _assign,
    "slices": _scatter,
    "in a function": _in_a_function,
}


@pytest.mark.parametrize("body", list(BY_ROWS.values()), ids=list(BY_ROWS))
def test_a_weight_that_rows_of_one_tower_update(body):
    with pytest.raises(ValueError, match=matching(TRAINED)):
        build(body)


@pytest.mark.parametrize("wrap", [replicate.TowerOptimizer, lambda optimizer: optimizer])
def test_gradients_by_hand_are_gathered(wrap):
    check_like_one_device(_optimize_by_hand(wrap))


@pytest.mark.parametrize("merge", [replicate.cross_tower_mean, replicate.cross_tower_sum])
def test_a_weight_may_be_assigned_what_all_towers_know(merge):
    def body(index, features):
        return spec(TRAIN, train_op=tf.group(_weight().assign(merge(tf.reduce_mean(features)))))

    want = {replicate.cross_tower_mean: 0.8, replicate.cross_tower_sum: 3 - 2.5}[merge]
    np.testing.assert_allclose(trained(body, 2), np.full([3, 1], want), rtol=1e-6)


def test_weights_may_be_assigned_beside_a_wrapped_optimizer():
    def body(index, features):
        made = good(index, features)
        (weight,) = tf.trainable_variables()
        with tf.control_dependencies([made.train_op]):
            clip = weight.assign(tf.clip_by_value(weight, -0.5, 0.5))
        return made._replace(train_op=tf.group(made.train_op, clip))

    np.testing.assert_allclose(trained(body, 2)[0], [0.5])
