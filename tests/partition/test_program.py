"""Programs of one tower: each tower computes what the program gives of its own rows."""

import contextlib
from unittest import mock

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import control_flow_util

import contract
import replicate
from replicate.partition import per_tower
from replicate.partition.order import in_order

ROWS = np.random.RandomState(11).normal(size=(7, 3)) + np.linspace(-2, 2, 7)[:, None]


@contextlib.contextmanager
def control_flow(version):
    """Lets conditions and loops be those of TensorFlow 1 or 2."""
    before = control_flow_util.ENABLE_CONTROL_FLOW_V2
    control_flow_util.ENABLE_CONTROL_FLOW_V2 = version == 2
    try:
        yield
    finally:
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = before


def chosen(x):
    """A branch by the tower's rows, with constants and a gradient in it."""
    y = tf.cond(
        tf.reduce_mean(x) > 0,
        lambda: tf.square(x) + tf.constant([1.0, 2.0, 3.0], tf.float64),
        lambda: tf.fill(tf.shape(x), tf.constant(-1.0, tf.float64)) * x,
    )
    (gradient,) = tf.gradients(y, x)
    return y + gradient


def repeated(x):
    """A loop of as many rounds as the tower's rows take."""
    return tf.while_loop(
        lambda y: tf.reduce_max(tf.abs(y)) < 50.0, lambda y: y * 2.0 + tf.ones_like(y), [x]
    )


def mapped(x):
    """A loop that keeps what it makes, and its gradient."""
    y = tf.map_fn(lambda row: row * tf.reduce_sum(tf.tanh(row)), x)
    (gradient,) = tf.gradients(tf.reduce_sum(y * y), x)
    return gradient


def normalised(x):
    """Normalises by the moments of the tower's rows."""
    return (x - tf.reduce_mean(x, 0)) / (1.0 + tf.math.reduce_std(x, 0))


def called(x):
    """A Python function."""
    return tf.ensure_shape(tf.py_func(lambda rows: rows.sum() * rows, [x], tf.float64), x.shape)


def scattered(x):
    """Entries of a tensor that is made of the tower's rows."""
    rows = tf.shape(x)[0]
    backwards = tf.range(rows)[::-1, None]
    return tf.scatter_nd(backwards, x, [rows, 3]) * 2.0


def gathered(x):
    """A tower takes entries of its rows; the gradient scatters them back."""
    some = tf.gather_nd(x, [[0, 1], [0, 2], [0, 1]])
    (gradient,) = tf.gradients(tf.reduce_sum(some * some), x)
    return gradient


BODIES = [chosen, repeated, mapped, normalised, called, scattered, gathered]


def predicted(body, rows, num_towers):
    def model_fn(features, labels, mode):
        return tf.estimator.EstimatorSpec(mode, predictions=body(features))

    with tf.Graph().as_default():
        batch = tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(rows)).get_next()
        if num_towers > 1:
            model_fn = contract.replicated(model_fn, num_towers, per_tower=True)
        spec = model_fn(batch, None, "infer")
        with tf.Session(config=contract.session_config(num_towers)) as session:
            return session.run(spec.predictions)


@pytest.mark.parametrize("num_towers", [2, 3])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("body", BODIES)
def test_each_tower_has_the_results_of_its_rows(body, version, num_towers):
    with control_flow(version):
        got = predicted(body, ROWS, num_towers)
        shards = np.array_split(ROWS, num_towers)
        want = np.concatenate([predicted(body, shard, 1) for shard in shards])
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_towers_draw_numbers_of_their_own_and_begin_with_the_same_weights():
    def model_fn(features, labels, mode):
        w = tf.get_variable("w", [3], tf.float64, tf.random_uniform_initializer(seed=3))
        drawn = tf.random_uniform([3], dtype=tf.float64, seed=5)
        return tf.estimator.EstimatorSpec(mode, predictions=features * 0 + w + 10 * drawn)

    with tf.Graph().as_default():
        features = tf.constant(ROWS)
        spec = contract.replicated(model_fn, 3, per_tower=True)(features, None, "infer")
        with tf.Session(config=contract.session_config(3)) as session:
            session.run(tf.global_variables_initializer())
            first, second = session.run(spec.predictions), session.run(spec.predictions)
    for rows in (first, second):
        towers = np.split(rows, [3, 5])
        assert all((tower == tower[0]).all() for tower in towers)
        assert len({tower[0].tobytes() for tower in towers}) == 3
    assert not (first == second).any()


def test_a_penalty_counts_in_each_tower_in_a_sum_of_losses():
    def model_fn(features, labels, mode):
        w = tf.get_variable(
            "w", [3], tf.float64, tf.ones_initializer(), regularizer=tf.keras.regularizers.l2(0.5)
        )
        penalty = 3.0 / replicate.num_towers() * tf.losses.get_regularization_loss()
        loss = tf.reduce_sum(features * w) + penalty
        optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(1.0))
        train_op = optimizer.minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    found = []
    for num_towers in (1, 3):
        with tf.Graph().as_default():
            features = tf.constant(ROWS)
            fn = model_fn
            if num_towers > 1:
                fn = contract.replicated(fn, num_towers, contract.SUM, per_tower=True)
            spec = fn(features, None, "train")
            with tf.Session(config=contract.session_config(num_towers)) as session:
                session.run(tf.global_variables_initializer())
                loss, _ = session.run([spec.loss, spec.train_op])
                found.append((loss, *session.run(tf.trainable_variables())))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-12)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-12)


def host_call(body):
    """A model with a condition, whose host computes `body` of the rows of all towers."""

    def model_fn(features, labels, mode, params):

        def metric_fn(rows):
            made = tf.reduce_sum(tf.cast(body(tf.cast(rows, tf.float64)), tf.float64))
            return {"made": (made, tf.no_op())}

        loss = tf.reduce_mean(chosen(features))
        host = metric_fn, [features]
        return tf.estimator.tpu.TPUEstimatorSpec(mode, loss=loss, eval_metrics=host)

    return model_fn


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("body", BODIES)
def test_what_is_added_to_a_program_has_the_layouts_that_inference_gives(body, version):
    found = []

    def extend(known, program, first):
        extended = extend_as_built(known, program, first)
        found.append((known, extended, per_tower.infer(program, first)))
        return extended

    extend_as_built = per_tower.extend
    patched = mock.patch.object(per_tower, "extend", extend)
    with control_flow(version), patched, tf.Graph().as_default():
        fn = contract.replicated(host_call(body), 3, per_tower=True)
        fn(tf.constant(ROWS), None, "eval", {})
    ((known, extended, inferred),) = found
    assert len(known.operations) < len(extended.operations)
    assert extended.layouts.by_reference == inferred.layouts.by_reference
    assert extended.layouts.strategies == inferred.layouts.strategies
    assert extended.may_be_dead == inferred.may_be_dead
    assert extended.arrays == inferred.arrays
    assert in_order(extended.operations) == extended.operations
