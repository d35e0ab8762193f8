"""In training, fused batch norm has the moments of each tower's rows, and nothing else differs."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from replicate.layouts import Facts, rules
from replicate.layouts.layout import MEAN, PER_TOWER, SUM, WHOLE, Layout, Shard, Strategy
from replicate.layouts.rule import rule_of

VERSIONS = ("", "V2", "V3")
ROWS, EPSILON = (3, 0, 2), 1e-2
SCALE, OFFSET = np.array([2.0, -1.0], np.float32), np.array([0.5, 3.0], np.float32)

assert rules  # Which enters them.


def images(seed: int) -> np.ndarray:
    return np.random.RandomState(seed).randn(sum(ROWS), 2, 3, 2).astype(np.float32)


def parts(whole: np.ndarray) -> list[np.ndarray]:
    return np.split(whole, np.cumsum(ROWS)[:-1])


def forward(version: str, x: Any, is_training: bool = True) -> Any:
    """Returns the operation that normalizes."""
    moments = [] if is_training else np.ones(2, np.float32)
    made = getattr(tf.raw_ops, f"FusedBatchNorm{version}")(
        x=x,
        scale=SCALE,
        offset=OFFSET,
        mean=tf.constant(moments, tf.float32),
        variance=tf.constant(moments, tf.float32),
        epsilon=EPSILON,
        is_training=is_training,
    )
    return made.y.op


def backward(version: str, gradient: Any, operation: Any) -> Any:
    """Returns the operation that takes the gradient of what one normalizes."""
    reserved = {f"reserve_space_{i + 1}": own for i, own in enumerate(operation.outputs[3:])}
    made = getattr(tf.raw_ops, f"FusedBatchNormGrad{version}")(
        y_backprop=gradient,
        x=operation.inputs[0],
        scale=SCALE,
        epsilon=EPSILON,
        is_training=True,
        **reserved,
    )
    return made.x_backprop.op


def strategy(operation: Any, layouts: Sequence[Layout]) -> Strategy | None:
    facts = Facts(sum(ROWS))
    rule = rule_of(operation.type)
    assert rule is not None
    return rule(facts.op_of(operation), layouts)


def normalized(x: np.ndarray) -> np.ndarray:
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return SCALE * (x - mean) / np.sqrt(variance + EPSILON) + OFFSET


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_stay_rows_and_reserved_tensors_stay_in_towers(version: str) -> None:
    operation = forward(version, tf.constant(images(0)))
    found = strategy(operation, [Shard(0), *[WHOLE] * 4])
    assert found == Strategy(
        (Shard(0), *[WHOLE] * 4),
        (Shard(0), MEAN, MEAN, *[PER_TOWER] * (len(operation.outputs) - 3)),
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_other_axes_are_not_cut(version: str, axis: int) -> None:
    operation = forward(version, tf.constant(images(0)))
    assert strategy(operation, [Shard(axis), *[WHOLE] * 4]) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_towers_have_their_own_moments_and_all_of_them_the_mean_of_these(version: str) -> None:
    x = tf.placeholder(tf.float32, [None, 2, 3, 2])
    y, mean, variance = forward(version, x).outputs[:3]
    with tf.Session() as session:
        made = [session.run([y, mean, variance], {x: part}) for part in parts(images(0))]
    for (own, *_), part in zip(made, parts(images(0))):
        assert own.shape == part.shape
        if len(part):
            np.testing.assert_allclose(own, normalized(part), atol=1e-5)
    weighted = [
        sum(own[i] * rows for own, rows in zip(made, ROWS) if rows) / sum(ROWS) for i in (1, 2)
    ]
    np.testing.assert_allclose(weighted[0], images(0).mean((0, 1, 2)), atol=1e-6)
    # Of n numbers, the variance is n / (n - 1) times the mean of squares.
    variances = [part.var((0, 1, 2), ddof=1) * len(part) for part in parts(images(0)) if len(part)]
    np.testing.assert_allclose(weighted[1], sum(variances) / sum(ROWS), atol=1e-6)


@pytest.mark.parametrize("version", VERSIONS)
def test_gradients_are_those_of_what_towers_normalize(version: str) -> None:
    x, gradient = (tf.placeholder(tf.float32, [None, 2, 3, 2]) for _ in range(2))
    operation = backward(version, gradient, forward(version, x))
    given = [Shard(0), Shard(0), WHOLE, *[PER_TOWER] * (len(operation.inputs) - 3)]
    found = strategy(operation, given)
    assert found == Strategy(tuple(given), (Shard(0), SUM, SUM, PER_TOWER, PER_TOWER))
    with tf.Session() as session:
        made = [
            session.run(list(operation.outputs), {x: own, gradient: of_own})
            for own, of_own in zip(parts(images(0)), parts(images(1)))
        ]
        wanted = session.run(unfused())
    np.testing.assert_allclose(np.concatenate([own[0] for own in made]), wanted[0], atol=1e-5)
    for index in (1, 2):
        np.testing.assert_allclose(sum(own[index] for own in made), wanted[index], rtol=1e-5)
    for index in (3, 4):
        assert not any(np.any(own[index]) for own in made)


def unfused() -> Any:
    """Returns the gradients of what towers normalize one by one, without the kernel."""
    given = [tf.constant(value, tf.float64) for value in (images(0), SCALE, OFFSET)]
    x, scale, offset = given
    made = []
    for part in tf.split(x, ROWS):
        if tf.dimension_value(part.shape[0]):
            mean, variance = tf.nn.moments(part, [0, 1, 2])
            made.append(tf.nn.batch_normalization(part, mean, variance, offset, scale, EPSILON))
    return tf.gradients(tf.concat(made, 0), given, images(1).astype(np.float64))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_gradient_of_moments_of_all_rows_runs_once(version: str) -> None:
    x = tf.constant(images(0))
    operation = backward(version, x, forward(version, x))
    moments = len(operation.inputs) - 3
    assert strategy(operation, [Shard(0), Shard(0), *[WHOLE] * (1 + moments)]) is None
    one_is_whole = [Shard(0), Shard(0), WHOLE, WHOLE, *[PER_TOWER] * (moments - 1)]
    assert strategy(operation, one_is_whole) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_moments_that_are_given_are_the_same_in_all_towers(version: str) -> None:
    operation = forward(version, tf.constant(images(0)), is_training=False)
    found = strategy(operation, [Shard(0), *[WHOLE] * 4])
    assert found is not None and found.outputs[:3] == (Shard(0), MEAN, MEAN)
