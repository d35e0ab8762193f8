"""Schedules, the running mean on towers, and the transposed initialiser."""

import itertools
import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import matching
from examples.nas_search import custom_layers
from nas_search import nas_steps


def evaluate(tensor):
    with tf.Session() as session:
        return session.run(tensor)


@pytest.mark.parametrize("num_towers", [1, 2, 3])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.95])
def test_the_running_mean_is_updated_once_per_step(num_towers, momentum):
    """After t values x, the mean is Σ m^(t−i)·xᵢ / Σ m^(t−i), whatever the number of towers."""

    def body(rows):
        x = replicate.cross_tower_mean(tf.reduce_mean(rows))
        given = tf.constant(momentum) if momentum == 0.5 else momentum
        mean = custom_layers.update_exponential_moving_average(x, given)
        return tf.group(mean), {"mean": mean}

    batches = list(np.random.RandomState(0).normal(size=(4, 6)))
    values, steps = [], nas_steps.run(body, batches, num_towers)
    for batch, (seen, variables) in zip(batches, steps):
        values.append(batch.mean())
        weights = momentum ** np.arange(len(values))[::-1]
        want = weights @ values / weights.sum()
        np.testing.assert_allclose([tower["mean"] for tower in seen], want, rtol=1e-12)
        # 1 − m^t is what the weights of t values add up to.
        denominator = variables["exponential_moving_average/denominator"]
        np.testing.assert_allclose(denominator, 1 - momentum ** len(values), rtol=1e-12)
    # One numerator, one denominator and the global step, not one for each tower.
    assert len(steps[0][1]) == 3


def test_the_running_mean_by_hand():
    x = tf.placeholder(tf.float32, [])
    mean = custom_layers.update_exponential_moving_average(x, 0.5, name="baseline")
    assert {v.op.name for v in tf.global_variables()} == {
        "baseline/numerator",
        "baseline/denominator",
    }
    assert not tf.trainable_variables()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(mean, {x: 8.0}) == 8.0  # The first value, without a bias towards 0.
        # (0.5·4 + 0.5·2) / (0.5·0.5 + 0.5) = 3 / 0.75
        assert session.run(mean, {x: 2.0}) == 4.0


def test_the_running_mean_of_a_vector():
    mean = custom_layers.update_exponential_moving_average(tf.constant([1.0, -2.0]), 0.9)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            np.testing.assert_allclose(session.run(mean), [1.0, -2.0], rtol=1e-6)


@pytest.mark.parametrize("momentum", [-0.1, 1, 1.5])
def test_momentum_out_of_range(momentum):
    message = f"`momentum` must lie in [0, 1)…is {momentum}…With 0"
    with pytest.raises(ValueError, match=matching(message)):
        custom_layers.update_exponential_moving_average(tf.constant(1.0), momentum)


def test_a_running_mean_of_unknown_shape():
    x = tf.placeholder(tf.float32, [None])
    with pytest.raises(
        ValueError, match=matching("`tensor` must have a known shape…(None,)…Reduce")
    ):
        custom_layers.update_exponential_moving_average(x, 0.9)


@pytest.mark.parametrize(
    "step, peak, warmup, want",
    [
        (0, 4.0, 10, 0.0),
        (5, 4.0, 10, 2.0),  # half of the warm-up
        (10, 4.0, 10, 4.0),
        (35, 4.0, 10, 2.0 * (1 + math.cos(math.pi / 4))),  # a quarter of the way from 10 to 110
        (60, 4.0, 10, 2.0),  # half of the way
        (110, 4.0, 10, 0.0),
        (200, 4.0, 10, 0.0),
        (0, 4.0, 0, 4.0),
        (55, 4.0, 0, 2.0),
        (55, 4.0, 110, 2.0),  # nothing but warm-up
        (110, 4.0, 110, 4.0),
    ],
)
def test_cosine_decay_with_linear_warmup(step, peak, warmup, want):
    for global_step in [step, tf.constant(step, tf.int64)]:
        rate = custom_layers.cosine_decay_with_linear_warmup(peak, global_step, 110, warmup)
        assert rate.dtype == tf.float32 and rate.shape.rank == 0
        np.testing.assert_allclose(evaluate(rate), want, atol=1e-6)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, 0), "`max_global_step` must be at least 1, but is 0…Train longer"),
        ((10, 11), "`warmup_steps` must lie in [0, 10]…is 11…Shorten the warm-up"),
        ((10, -1), "`warmup_steps` must lie in [0, 10]…is -1…Shorten the warm-up"),
    ],
)
def test_impossible_cosine_decays(arguments, message):
    with pytest.raises(ValueError, match=matching(message)):
        custom_layers.cosine_decay_with_linear_warmup(1.0, 0, *arguments)


@pytest.mark.parametrize(
    "step, warmup, want",
    [(-5, 8, 0), (0, 8, 0), (2, 8, 0.25), (8, 8, 1), (9, 8, 1), (0, 0, 1), (3, 0, 1)],
)
def test_linear_ramps(step, warmup, want):
    for global_step in [step, tf.constant(step, tf.int64)]:
        up = custom_layers.linear_warmup(global_step, warmup)
        down = custom_layers.linear_decay(global_step, warmup)
        assert up.dtype == down.dtype == tf.float32
        assert evaluate([up, down]) == [want, 1 - want]


@pytest.mark.parametrize("ramp", [custom_layers.linear_warmup, custom_layers.linear_decay])
def test_negative_ramps(ramp):
    message = "number of steps of a ramp must be at least 0, but is -1…Pass 0"
    with pytest.raises(ValueError, match=matching(message)):
        ramp(0, -1)


def counting(shape, dtype=tf.float32):
    """An initialiser that numbers the elements."""
    return tf.reshape(tf.cast(tf.range(np.prod(shape)), dtype), shape)


def test_transposed_initializer():
    shape = (2, 3, 4, 1)
    initializer = custom_layers.TransposedInitializer(counting)
    with tf.Session() as session:
        variable = tf.get_variable("kernel", shape, initializer=initializer)
        session.run(tf.global_variables_initializer())
        got = session.run(variable)
    for y, x, channel in itertools.product(range(2), range(3), range(4)):
        # Element [y, x, 0, channel] of a kernel [2, 3, 1, 4].
        assert got[y, x, channel, 0] == (y * 3 + x) * 4 + channel
    assert evaluate(initializer(shape, tf.float64)).dtype == np.float64


def test_transposed_initializer_of_any_rank():
    initializer = custom_layers.TransposedInitializer(counting)
    np.testing.assert_array_equal(
        evaluate(initializer([3, 2])), np.arange(6).reshape(2, 3).transpose()
    )
    again = custom_layers.TransposedInitializer(**initializer.get_config())
    np.testing.assert_array_equal(evaluate(again([3, 2])), evaluate(initializer([3, 2])))


def test_transposed_initializer_scales_by_the_inputs_of_an_output():
    """He's variance is 2 / fan-in: of a depthwise 3×3 kernel 9 inputs, not 9 · 512."""
    he_normal = tf.initializers.he_normal(seed=1)
    kernel = evaluate(custom_layers.TransposedInitializer(he_normal)([3, 3, 512, 1]))
    np.testing.assert_allclose(kernel.var(), 2 / 9, rtol=0.1)  # 4608 draws: ±2 %


@pytest.mark.parametrize("shape", [[], [3]])
def test_transposed_initializer_of_a_vector(shape):
    message = f"with two axes or more…is {shape}…wraps"
    with pytest.raises(ValueError, match=matching(message)):
        custom_layers.TransposedInitializer(counting)(shape)
