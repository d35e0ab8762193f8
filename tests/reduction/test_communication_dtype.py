"""Gradients cross devices in half precision, multiplied by the loss scale; activations do not."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate

ROWS, TOWERS = 7, 3
HALF = replicate.Reduction(communication_dtype=tf.float16)


def _dense(features, size):
    weights = tf.get_variable("w", [3], initializer=tf.zeros_initializer())
    return size * tf.reduce_mean(tf.reduce_sum(features * weights, 1))


def _table():
    return tf.get_variable("w", [3, 2], initializer=tf.zeros_initializer())


def _ids(features):
    return tf.cast(features[:, 0], tf.int32)


def _rows(features, size):
    return size * tf.reduce_mean(tf.gather(_table(), _ids(features)) * features[:, :2])


def _rows_twice(features, size):
    """The rows of both gradients are concatenated, so they meet before they are unscaled."""
    table, ids = _table(), _ids(features)
    rows = tf.gather(table, ids) + tf.gather(table, 2 - ids) * features[:, 1:]
    return size * tf.reduce_mean(rows * features[:, :2])


LOSSES = {"dense": _dense, "rows": _rows, "rows twice": _rows_twice}


def trained(loss_of, features, towers, by_hand=False, **kwargs):
    """Returns the loss of a step at learning rate 1, and the weights after it."""

    def model_fn(features, labels, mode):
        loss = loss_of(features)
        # Unlike plain descent, momentum takes gradients of rows as they are.
        optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(1.0, 0.0), **kwargs)
        if by_hand:
            variables = tf.trainable_variables()
            grads = tf.gradients(optimizer.scale_loss(loss), variables)
            train_op = optimizer.apply_gradients(zip(optimizer.unscale(grads), variables))
        else:
            train_op = optimizer.minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    if towers > 1:
        model_fn = contract.replicated(model_fn, towers)
    with tf.Graph().as_default():
        spec = model_fn(tf.constant(features), tf.constant(features), mode="train")
        weights = tf.trainable_variables()[0]
        with tf.Session(config=contract.session_config(towers)) as session:
            session.run(tf.global_variables_initializer())
            loss = session.run(spec.loss)
            session.run(spec.train_op)
            return loss, session.run(weights)


def features():
    return np.random.RandomState(3).uniform(0, 3, [ROWS, 3]).astype(np.float32)


@pytest.mark.parametrize("given", [{}, {"by_hand": True}, {"clip_norm": 1e6}], ids=str)
@pytest.mark.parametrize(("size", "scale"), [(1e-9, 2.0**24), (1.0, 2.0**14)])
@pytest.mark.parametrize("kind", list(LOSSES))
def test_gradients_cross_multiplied_by_the_loss_scale(kind, size, scale, given):
    """Without it, float16 loses those below 6e-8; with its square, those near 1 are infinite."""

    def loss_of(features):
        return LOSSES[kind](features, size)

    _, want = trained(loss_of, features(), 1)
    _, got = trained(loss_of, features(), TOWERS, loss_scale=scale, reduction=HALF, **given)
    np.testing.assert_allclose(got, want, rtol=2e-3)
    if size < 1:
        _, lost = trained(loss_of, features(), TOWERS, reduction=HALF, **given)
        assert np.abs(lost).sum() < 0.9 * np.abs(want).sum()


@pytest.mark.parametrize("loss_scale", [None, 2.0**15])
def test_activations_cross_as_they_are(loss_scale):
    """A cumulative sum over rows has no rule, so its last row and the gradient of that run once."""

    def loss_of(features):
        weights = tf.get_variable("w", [3], initializer=tf.ones_initializer())
        hidden = 1e5 * tf.tanh(features)  # Infinite in float16.
        return 1e-6 * tf.reduce_sum(tf.cumsum(hidden)[-1] * weights)

    want = trained(loss_of, features(), 1)
    got = trained(loss_of, features(), TOWERS, loss_scale=loss_scale, reduction=HALF)
    for one, other in zip(got, want):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_loss_scale_does_not_multiply_gradients_of_other_optimizers():
    """The generator's scale would make a gradient of the discriminator infinite."""

    def model_fn(features, labels, mode):
        made = [tf.get_variable(name, [3], initializer=tf.zeros_initializer()) for name in "dg"]
        losses = [
            3.0 * tf.reduce_sum(features * made[0]),
            1e-2 * tf.reduce_mean(features * made[1]),
        ]
        other = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
        last = replicate.TowerOptimizer(
            tf.train.GradientDescentOptimizer(0.1), reduction=HALF, loss_scale=2.0**15
        )
        with tf.control_dependencies([other.minimize(losses[0], var_list=made[:1])]):
            train_op = last.minimize(losses[1], var_list=made[1:])
        return tf.estimator.EstimatorSpec(mode, loss=losses[1], train_op=train_op)

    with tf.Graph().as_default():
        spec = contract.replicated(model_fn, TOWERS)(tf.constant(features()), None, mode="train")
        with tf.Session(config=contract.session_config(TOWERS)) as session:
            session.run(tf.global_variables_initializer())
            session.run(spec.train_op)
            one, other = session.run(tf.trainable_variables())
    np.testing.assert_allclose(one, -0.3 * features().sum(0), rtol=1e-2)
    np.testing.assert_allclose(other, -1e-3 * features().mean(0) / 3.0, rtol=1e-2)
