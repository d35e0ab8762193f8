"""A `TowerOptimizer` around an optimizer of Keras 2 passes for one, as V2's Estimators ask for."""

import copy

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

import replicate
from bodies import DEVICES, matching
from replicate import estimator
from versions import legacy

ROWS = np.array([[1.0], [2.0], [6.0], [3.0], [-8.0]], np.float32)
LOST = (
    "Keras copies an optimizer by `get_config`, which has no options of `TowerOptimizer`, but was "
    "called for …SGD. Wrap one of `tf.train`, which Keras does not copy, or leave the options out."
)


def test_isinstance_knows_it_for_what_it_wraps():
    optimizer = replicate.TowerOptimizer(legacy.SGD(0.1))
    assert isinstance(optimizer, legacy.SGD)
    assert isinstance(optimizer, legacy.Optimizer)
    assert not isinstance(optimizer, legacy.Adam)
    assert isinstance(optimizer, (replicate.TowerOptimizer, tf.train.Optimizer))
    assert type(optimizer) is replicate.TowerOptimizer


def test_a_class_is_known_before_it_is_called():
    assert isinstance(replicate.TowerOptimizer(legacy.SGD), legacy.SGD)


def test_functions_are_not_called_to_know():
    optimizer = replicate.TowerOptimizer(lambda: pytest.fail("called"))
    assert not isinstance(optimizer, legacy.Optimizer)


def test_what_a_function_made_is_known():
    optimizer = replicate.TowerOptimizer(lambda: legacy.SGD(0.1))
    assert optimizer.get_name() == "SGD"
    assert isinstance(optimizer, legacy.SGD)


def test_other_optimizers_pass_for_none():
    for wrapped in (tf.train.GradientDescentOptimizer(0.1), tf.train.AdamOptimizer):
        optimizer = replicate.TowerOptimizer(wrapped)
        assert not isinstance(optimizer, (legacy.Optimizer, type(optimizer.optimizer)))
        assert optimizer.__class__ is replicate.TowerOptimizer


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy])
def test_copies(make):
    original = replicate.TowerOptimizer(legacy.SGD(0.25), clip_norm=1.0)
    made = make(original)
    assert type(made) is replicate.TowerOptimizer
    assert isinstance(made, legacy.SGD)
    assert made.get_name() == "SGD"
    assert made.step is not original.step or make is copy.copy


def test_its_configuration():
    optimizer = replicate.TowerOptimizer(legacy.SGD(0.25))
    made = optimizer.__class__.from_config(optimizer.get_config())
    assert made.get_config() == legacy.SGD(0.25).get_config()


@pytest.mark.parametrize(
    "options",
    [
        {"clip_norm": 1.0},
        {"transform_gradients": list},
        {"accumulate_steps": 2},
        {"check_finite": True},
        {"loss_scale": 2.0},
    ],
)
def test_options_are_not_lost_in_a_configuration(options):
    optimizer = replicate.TowerOptimizer(legacy.SGD(0.25), **options)
    with pytest.raises(ValueError, match=matching(LOST)):
        optimizer.get_config()


def _canned(make):
    column = tf.feature_column.numeric_column("x")
    return tf2.estimator.LinearRegressor([column], optimizer=make).model_fn


def _of_a_head(make):
    def model_fn(features, labels, mode):
        layer = tf.layers.Dense(1, kernel_initializer=tf.ones_initializer())
        logits = layer(features["x"])
        optimizer = make()
        optimizer.iterations = tf.train.get_or_create_global_step()
        return tf2.estimator.RegressionHead().create_estimator_spec(
            features, mode, logits, labels, optimizer, trainable_variables=layer.trainable_weights
        )

    return model_fn


@pytest.mark.parametrize("make_model_fn", [_canned, _of_a_head])
def test_estimators_of_version_2_take_it_with_options(make_model_fn, tmp_path):
    made = []

    def make(devices):
        def optimizer():
            made.append(replicate.TowerOptimizer(legacy.SGD(0.5), clip_norm=0.125))
            return made[-1]

        return make_model_fn(optimizer) if devices < 2 else replicated(make_model_fn(optimizer))

    def replicated(model_fn):
        return replicate.replicate_model_fn(model_fn, devices=DEVICES[:2])

    def trained(devices):
        config = estimator.RunConfig(session_config=replicate.session_config(DEVICES[:2]))
        model = estimator.Estimator(make(devices), str(tmp_path / str(devices)), config)
        model.train(lambda: ({"x": tf.constant(ROWS)}, tf.constant(3 * ROWS)), steps=2)
        names = [name for name in model.get_variable_names() if "iter" not in name]
        return {name: model.get_variable_value(name) for name in names}

    want, got = trained(1), trained(2)
    assert len(made) == 2
    weights = [name for name in want if "step" not in name]
    moved = sum(np.linalg.norm(want[name]) for name in weights)
    assert moved > 0.1
    assert want.keys() == got.keys()
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, err_msg=name)
