"""Depthwise kernels get the variance that their few inputs call for."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.nas_search import depthwise_initializers
from examples.nas_search.depthwise_initializers import DepthwiseVarianceScaling

SHAPE = [3, 5, 4000, 2]  # 15 inputs and 30 outputs; 120,000 draws


def draw(initializer, shape=SHAPE, **kwargs):
    with tf.Session() as session:
        return session.run(initializer(shape, **kwargs))


@pytest.mark.parametrize(("mode", "fan"), [("fan_in", 15), ("fan_out", 30), ("fan_avg", 22.5)])
@pytest.mark.parametrize(
    ("distribution", "limit"),
    # In units of the standard deviation: the truncated one is cut at two of the uncut one's, which
    # is larger by 1 / 0.8796; √3 is half the side of a uniform distribution.
    [("truncated_normal", 2 / 0.87962566), ("untruncated_normal", None), ("uniform", 3**0.5)],
)
def test_variance(mode, fan, distribution, limit):
    values = draw(DepthwiseVarianceScaling(0.5, mode, distribution, seed=1))
    stddev = (0.5 / fan) ** 0.5
    assert (values.dtype, list(values.shape)) == (np.float32, SHAPE)
    assert abs(values.mean()) < 0.02 * stddev
    assert values.std() == pytest.approx(stddev, rel=0.01)
    largest = np.abs(values).max() / stddev
    if limit is None:
        assert largest > 3.5
    else:
        assert largest <= limit * (1 + 1e-6)
        assert largest == pytest.approx(limit, rel=0.01)


def test_he_normal_has_variance_two_over_the_window():
    values = draw(depthwise_initializers.depthwise_he_normal(seed=1))
    assert values.var() == pytest.approx(2 / 15, rel=0.02)
    again = draw(depthwise_initializers.depthwise_he_normal(seed=1))
    np.testing.assert_array_equal(values, again)
    assert (values != draw(depthwise_initializers.depthwise_he_normal(seed=2))).any()


def test_the_caller_can_choose_the_type():
    initializer = DepthwiseVarianceScaling(dtype=tf.float64)
    assert draw(initializer, [1, 1, 2, 1]).dtype == np.float64
    assert draw(initializer, [1, 1, 2, 1], dtype=tf.float32).dtype == np.float32
    variable = tf.get_variable("w", [3, 3, 2, 1], initializer=initializer)
    assert variable.dtype.base_dtype == tf.float32


def test_configuration_makes_an_equal_one():
    config = {
        "scale": 3.0,
        "mode": "fan_out",
        "distribution": "uniform",
        "seed": 4,
        "dtype": "float64",
    }
    assert DepthwiseVarianceScaling(**config).get_config() == config
    copy = DepthwiseVarianceScaling.from_config(config)
    np.testing.assert_array_equal(draw(copy), draw(DepthwiseVarianceScaling(**config)))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"scale": 0}, "`scale` must be greater than 0, but is 0."),
        ({"mode": "fan"}, "`mode` must be one of ['fan_in', 'fan_out', 'fan_avg'], but is 'fan'."),
        ({"distribution": "normal"}, "`distribution` must be one of ['truncated_normal'"),
        ({"dtype": tf.int32}, "`dtype` must be a float type, but is int32."),
    ],
)
def test_bad_arguments_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        DepthwiseVarianceScaling(**kwargs)


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ([3, 3, 2], None, r"must have four axes.*but the shape is \[3, 3, 2\]"),
        (SHAPE, tf.int32, "must be a float type, but is int32"),
    ],
)
def test_bad_kernels_are_refused(shape, dtype, message):
    with pytest.raises(ValueError, match=message):
        DepthwiseVarianceScaling()(shape, dtype)
