"""The `model_fn` of somebody's Estimator, replicated: it starts from what that starts from."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import DEVICES
from conformance import keras_estimator, version_2
from replicate import estimator
from versions import legacy

pytestmark = [pytest.mark.conformance, pytest.mark.filterwarnings("ignore")]

CONFIG = {"session_config": replicate.session_config(DEVICES), "log_step_count_steps": None}


def replicated(canned, model_dir, **kwargs):
    model_fn = replicate.replicate_model_fn(canned.model_fn, devices=DEVICES)
    return estimator.Estimator(
        model_fn, config=estimator.RunConfig(str(model_dir), **CONFIG), **kwargs
    )


def keras_model(rate=0.0):
    model = keras_estimator.make_model(legacy.SGD(rate))
    random = np.random.RandomState(0)
    model.set_weights([random.normal(size=array.shape) for array in model.get_weights()])
    return model


def batches():
    return tf.data.Dataset.from_tensor_slices(keras_estimator.rows(7)).batch(7)


def weights(trained):
    names = ("dense/kernel", "dense/bias", "class/kernel", "class/bias")
    return [trained.get_variable_value(name) for name in names]


def test_the_weights_of_a_keras_model(tmp_path):
    model = keras_model()
    want = model.get_weights()
    made = tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path / "keras"))
    towers = replicated(made, tmp_path / "towers")
    # Before there is a checkpoint, too.
    assert towers.evaluate(batches)["loss"] == pytest.approx(made.evaluate(batches)["loss"])
    towers.train(batches, steps=1)
    for got, array in zip(weights(towers), want):
        np.testing.assert_array_equal(got, array.astype(np.float32))


def test_training_goes_on_from_its_own_checkpoint(tmp_path):
    model = keras_model(rate=0.1)
    made = tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path / "keras"))
    towers = replicated(made, tmp_path / "towers")
    towers.train(batches, steps=1)
    first = weights(towers)
    towers.train(batches, steps=1)
    made.train(batches, steps=1)
    for got, want in zip(first, weights(made)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert not np.allclose(weights(towers)[0], first[0])


def linear(directory, **kwargs):
    column = tf.feature_column.numeric_column("x", shape=5)
    rate = legacy.SGD(kwargs.pop("rate", 0.0))
    api = version_2.api()
    return api.LinearClassifier([column], str(directory), n_classes=3, optimizer=rate, **kwargs)


def labelled():
    features, labels = keras_estimator.rows(7)
    return tf.data.Dataset.from_tensors((features, labels.argmax(1)[:, None]))


@pytest.mark.parametrize("own", [False, True])
def test_a_canned_estimator_that_starts_warm(own, tmp_path):
    """The new Estimator's `warm_start_from` takes precedence over the old one's."""
    for number, steps in (("first", 1), ("second", 3)):
        linear(tmp_path / number, rate=0.5).train(lambda: labelled().repeat(), steps=steps)
    canned = linear(tmp_path / "canned", warm_start_from=str(tmp_path / "first"))
    more = {"warm_start_from": str(tmp_path / "second")} if own else {}
    towers = replicated(canned, tmp_path / "towers", **more)
    towers.train(labelled, steps=1)
    name = "linear/linear_model/x/weights"
    want = tf.train.load_variable(str(tmp_path / ("second" if own else "first")), name)
    np.testing.assert_array_equal(towers.get_variable_value(name), want)
    assert np.abs(want).max() > 0


def test_an_export_has_nothing_of_where_it_started(tmp_path):
    made = tf.keras.estimator.model_to_estimator(keras_model(), model_dir=str(tmp_path / "keras"))
    towers = replicated(made, tmp_path / "towers")
    towers.train(batches, steps=1)
    path = towers.latest_checkpoint()
    features = {"x": tf.placeholder(tf.float32, [None, 5])}
    receiver = estimator.export.build_raw_serving_input_receiver_fn(features)
    other = replicated(made, tmp_path / "others")
    exported = other.export_saved_model(str(tmp_path / "saved"), receiver, checkpoint_path=path)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.saved_model.load(session, [tf.saved_model.SERVING], exported.decode())
        assert not [op for op in graph.get_operations() if "checkpoint_initializer" in op.name]


def test_row_weights_fail_with_and_without_towers():
    """TensorFlow takes labels and weights of rows for the labels of two outputs."""
    made = tf.keras.estimator.model_to_estimator(keras_model())

    def weighted():
        features, labels = keras_estimator.rows(7)
        return tf.data.Dataset.from_tensors((features, (labels, np.ones(7, np.float32))))

    for model in (made, replicated(made, made.model_dir)):
        with pytest.raises(ValueError, match=r"it should have one entry per model output"):
            model.train(weighted, steps=1)
