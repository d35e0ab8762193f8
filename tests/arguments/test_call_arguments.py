"""Arguments of a replicated `model_fn`, for user functions with any arguments in any order."""

import functools
import inspect

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import DEVICES, matching
from replicate import estimator

ROWS = np.array([[1.0], [2.0], [6.0], [3.0], [-8.0]], np.float32)
NO_PARAMS = (
    "model_fn (…) does not include params argument, but params ({'rate': 2}) is passed to "
    "Estimator.…Let `model_fn` take `params`, or pass the Estimator none."
)
NO_LABELS = (
    "model_fn does not take labels, but input_fn returns labels: …Let `model_fn` take `labels`, or "
    "`input_fn` return none."
)
NO_FEATURES = (
    "`model_fn` must take `features`, and may take `labels, mode, params, config`, by these "
    "names, but …Name its arguments so, and let a decorator around it use `functools.wraps`."
)


def _spec(features, labels, mode, rate=0.1):
    w = tf.get_variable("w", [], initializer=tf.ones_initializer())
    if labels is None:
        return estimator.EstimatorSpec(mode, {"y": w * features})
    loss = tf.reduce_mean(tf.square(w * features - labels))
    optimizer = tf.train.GradientDescentOptimizer(rate)
    return estimator.EstimatorSpec(
        mode, loss=loss, train_op=optimizer.minimize(loss, tf.train.get_global_step())
    )


def plain(features, labels, mode):
    return _spec(features, labels, mode)


def in_another_order(mode, params, labels, features):
    assert not params
    return _spec(features, labels, mode)


def configured(features, labels, mode, *, config):
    assert config is not None
    return _spec(features, labels, mode)


def with_a_default(features, labels, mode, params=None, rate=0.1):
    return _spec(features, labels, mode, rate)


def bound_first(rate, features, labels, mode):
    return _spec(features, labels, mode, rate)


class Model:
    def __call__(self, features, labels, mode):
        return _spec(features, labels, mode)

    def method(self, features, labels, mode, config):
        return _spec(features, labels, mode)

    @staticmethod
    def static(features, labels, mode):
        return _spec(features, labels, mode)


def _logged(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        assert "features" in kwargs
        return fn(*args, **kwargs)

    return wrapper


def _with_params(fn):
    @functools.wraps(fn)
    def wrapper(features, labels, mode):
        return fn(features, labels, mode, {"rate": 0.1})

    return wrapper


@_with_params
def given_params(features, labels, mode, params):
    return _spec(features, labels, mode, params["rate"])


class Decorated:
    @_logged
    def method(self, features, labels, mode):
        return _spec(features, labels, mode)


MODEL_FNS = {
    "plain": plain,
    "order": in_another_order,
    "keyword only": configured,
    "default": with_a_default,
    "partial": functools.partial(bound_first, rate=0.1),
    "partial by position": functools.partial(bound_first, 0.1),
    "partial of partial": functools.partial(functools.partial(with_a_default, params={}), rate=0.1),
    "object": Model(),
    "partial of object": functools.partial(Model().method, config=1),
    "method": Model().method,
    "static method": Model.static,
    "decorated": _logged(plain),
    "decorated with arguments of its own": given_params,
    "partial of decorated": functools.partial(_logged(bound_first), rate=0.1),
    "decorated partial": _logged(functools.partial(bound_first, rate=0.1)),
    "decorated method": Decorated().method,
}
IN_AN_ESTIMATOR = ["order", "partial", "object", "decorated with arguments of its own"]


@pytest.mark.parametrize("name", MODEL_FNS)
@pytest.mark.parametrize("num_towers", [1, 2])
@pytest.mark.parametrize("how", ["by position", "by name"])
def test_every_model_fn_is_called_alike(name, num_towers, how):
    replicated = replicate.replicate_model_fn(MODEL_FNS[name], devices=DEVICES[:num_towers])
    assert list(inspect.signature(replicated).parameters)[:5] == [
        "features", "labels", "mode", "params", "config",
    ]  # fmt: skip
    config = estimator.RunConfig(session_config=replicate.session_config(DEVICES))
    with tf.Graph().as_default(), tf.Session(config=config.session_config) as session:
        tf.train.create_global_step()
        rows = tf.constant(ROWS)
        if how == "by position":
            spec = replicated(rows, rows, "train", {}, config)
        else:
            spec = replicated(config=config, mode="train", labels=rows * 1, features=rows)
        session.run(tf.global_variables_initializer())
        loss, _ = session.run([spec.loss, spec.train_op])
    assert loss == 0


@pytest.mark.parametrize("name", IN_AN_ESTIMATOR)
def test_in_an_estimator(name, tmp_path):
    def run(model_fn, directory):
        config = estimator.RunConfig(session_config=replicate.session_config(DEVICES[:2]))
        model = estimator.Estimator(model_fn, str(tmp_path / directory), config, params={})

        def input_fn():
            return tf.data.Dataset.from_tensor_slices((ROWS, 2 * ROWS)).batch(5)

        model.train(input_fn)
        metrics = model.evaluate(input_fn)
        return metrics["loss"], [row["y"] for row in model.predict(input_fn)]

    want = run(in_another_order, "one")
    got = run(replicate.replicate_model_fn(MODEL_FNS[name], devices=DEVICES[:2]), "towers")
    assert got[0] == pytest.approx(want[0], rel=1e-5)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-5)


def test_a_canned_estimator_with_its_params(tmp_path):
    column = tf.feature_column.numeric_column("x")
    canned = estimator.LinearRegressor([column], optimizer="Ftrl")
    model_fn = replicate.replicate_model_fn(canned.model_fn, devices=DEVICES[:2])
    config = estimator.RunConfig(session_config=replicate.session_config(DEVICES[:2]))
    model = estimator.Estimator(model_fn, str(tmp_path), config, params=canned.params)
    model.train(lambda: ({"x": tf.constant(ROWS)}, tf.constant(ROWS)), steps=2)
    assert model.get_variable_value("global_step") == 2


def test_what_a_model_fn_takes_besides_is_a_keyword():
    seen = []

    def model_fn(features, mode, scale, shift=3, **more):
        seen.append((scale, shift, more))
        return _spec(features, None, mode)

    replicated = replicate.replicate_model_fn(model_fn, devices=DEVICES[:1])
    assert str(inspect.signature(replicated)) == (
        "(features, labels, mode, params=None, config=None, *, scale, shift=3, **more)"
    )
    with pytest.raises(TypeError, match="missing a required argument: 'scale'"):
        replicated(tf.ones([2]), None, "infer")
    replicated(tf.ones([2]), None, "infer", scale=2, other=5)
    assert seen == [(2, 3, {"other": 5})]


def test_params_that_the_call_leaves_out():
    seen = []

    def required(features, params):
        seen.append(params)
        return _spec(features, None, "infer")

    def optional(features, params="own"):
        return required(features, params)

    for model_fn in (required, optional):
        with tf.Graph().as_default():
            replicated = replicate.replicate_model_fn(model_fn, devices=DEVICES[:2])
            replicated(tf.ones([2]), None, "infer")
    assert seen == [None, "own"]


@pytest.mark.parametrize("name", ["plain", "decorated", "partial of partial"])
def test_params_that_model_fn_does_not_take(name, tmp_path):
    replicated = replicate.replicate_model_fn(MODEL_FNS[name])
    with pytest.raises(ValueError, match=matching(NO_PARAMS)):
        replicated(tf.ones([2]), None, "infer", {"rate": 2})
    model = estimator.Estimator(replicated, str(tmp_path), params={"rate": 2})
    with pytest.raises(ValueError, match=matching(NO_PARAMS)):
        model.train(lambda: (tf.ones([2]), tf.ones([2])))


def test_labels_that_model_fn_does_not_take():
    replicated = replicate.replicate_model_fn(lambda features, mode: None)
    with pytest.raises(ValueError, match=matching(NO_LABELS)):
        replicated(tf.ones([2]), tf.ones([2]), "train")


@pytest.mark.parametrize("fn", [lambda x, y, mode: None, lambda *args, **kwargs: None])
def test_a_model_fn_without_features(fn):
    with pytest.raises(ValueError, match=matching(NO_FEATURES)):
        replicate.replicate_model_fn(fn)
