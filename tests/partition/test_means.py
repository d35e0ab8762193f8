"""Means over rows that are exact on one device are exact in towers, whatever rows these have."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract

LARGEST = np.finfo(np.float32).max


def of_ones(x):
    return tf.reduce_mean(tf.ones_like(x), 0)


def of_a_constant(x):
    return tf.reduce_mean(x * 0 + 0.1, 0)


def of_whole_numbers(x):
    return tf.reduce_mean(tf.round(x * 100), 0)


def beside_constants(x):
    return tf.stack([tf.constant(0.1, x.dtype), tf.reduce_mean(x), tf.constant(7, x.dtype)])


def masked(x):
    nothing = tf.fill([3], tf.cast(-LARGEST, x.dtype))
    return tf.where([True, False, True], tf.reduce_mean(x, 0), nothing)


def standardized(x):
    """A column of the batch is constant, so it has no deviation."""
    x = tf.concat([x, tf.ones_like(x[:, :1])], 1)
    mean = tf.reduce_mean(x, 0)
    deviation = tf.sqrt(tf.reduce_mean((x - mean) ** 2, 0))
    return tf.math.divide_no_nan(x - mean, deviation)[:, 3]


def infinite(x):
    return tf.reduce_mean(tf.where_v2(x > 0.3, x * np.inf, tf.round(x)), 0)


def nearly_too_large(x):
    """The product with the number of rows cannot be held."""
    return tf.reduce_sum(tf.reduce_mean(tf.abs(x) + 0.5, 0) * (LARGEST / 8))


EXACT = (of_ones, of_whole_numbers, standardized, infinite)
CLOSE = (of_a_constant, beside_constants, masked)
SHORT = "float16"  # Towers round their means to 11 bits.


def values(make, dtype, batch, num_towers, is_static):
    """Returns a tensor of the batch, as one device and as towers compute it."""

    def model_fn(features, labels, mode):
        made = make(features)
        # Used by rows, so that towers compute it.
        given = features * tf.reduce_max(tf.clip_by_value(made, 0, 1))
        loss = tf.reduce_mean(tf.matmul(given, tf.get_variable("w", [3, 2], dtype)) ** 2)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
        spec = tf.estimator.EstimatorSpec
        return spec(mode, loss=loss, train_op=train_op, predictions={"made": made})

    found = []
    for towers in (1, num_towers):
        with tf.Graph().as_default():
            given = tf.placeholder(dtype, [len(batch) if is_static else None, 3])
            fn = model_fn if towers == 1 else contract.replicated(model_fn, towers)
            made = fn(given, None, "train").predictions["made"]
            with tf.Session(config=contract.session_config(towers)) as session:
                session.run(tf.global_variables_initializer())
                found.append(session.run(made, {given: batch}))
    return found


@pytest.mark.parametrize("is_static", [True, False], ids=["static", "unknown"])
@pytest.mark.parametrize(
    ("dtype", "rows", "num_towers"),
    [
        ("float64", 7, 3),
        ("float64", 13, 4),
        ("float32", 31, 3),
        ("float32", 14, 8),
        ("float32", 12, 4),
        ("float16", 7, 3),
    ],
)
@pytest.mark.parametrize("make", EXACT + CLOSE, ids=lambda make: make.__name__)
def test_a_mean_is_that_of_one_device(make, dtype, rows, num_towers, is_static):
    batch = np.random.RandomState(1).uniform(-1, 1, [rows, 3]).astype(dtype)
    one, towers = values(make, dtype, batch, num_towers, is_static)
    if make in EXACT and (dtype != SHORT or make != of_whole_numbers):
        np.testing.assert_array_equal(towers, one)
    else:
        np.testing.assert_allclose(towers, one, rtol=16 * np.finfo(dtype).eps)


@pytest.mark.parametrize("is_static", [True, False], ids=["static", "unknown"])
@pytest.mark.parametrize(("rows", "num_towers"), [(31, 3), (14, 8), (12, 4)])
def test_a_large_mean_stays_finite(rows, num_towers, is_static):
    batch = np.random.RandomState(1).uniform(-1, 1, [rows, 3]).astype("float32")
    one, towers = values(nearly_too_large, "float32", batch, num_towers, is_static)
    assert np.isfinite(one)
    np.testing.assert_allclose(towers, one, rtol=16 * np.finfo("float32").eps)
