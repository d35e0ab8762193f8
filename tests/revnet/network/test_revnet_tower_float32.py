"""In float32, towers go by TensorFlow's kernel and gradients go through the moments of all rows."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from examples.revnet import RevNet, preset
from replicate import estimator

ROWS, STEPS = 7, 2
_random = np.random.RandomState(0)
IMAGES = _random.normal(size=[ROWS, 4, 4, 1]).astype(np.float32)
LABELS = _random.randint(10, size=ROWS).astype(np.int32)


def model_fn(features, labels, mode, params):
    network = {"units": (1,), "filters": (4,), "initial_filters": 4, "image_shape": (4, 4, 1)}
    model = RevNet(preset("digits", seed=0, recompute=params["recompute"], **network))
    logits, saved_hidden = model(features, training=True)
    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.5))
    step = tf.train.get_global_step()
    if params["by_hand"]:
        grads, loss = model.compute_gradients(saved_hidden, labels)
        update = optimizer.apply_gradients(zip(grads, model.trainable_variables), step)
    else:
        loss = model.training_loss(labels, logits)
        update = optimizer.minimize(loss, step)
    return estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(update, *model.updates))


def weights_after_steps(towers, params):
    """Returns the weights after some steps on so many towers, by name."""
    devices = [f"/cpu:{index}" for index in range(towers)]
    config = estimator.RunConfig(session_config=replicate.session_config(devices))
    replicated = replicate.replicate_model_fn(model_fn, devices=devices, batch_norm="batch")
    trained = estimator.Estimator(replicated, config=config, params=params)
    trained.train(lambda: tf.data.Dataset.from_tensors((IMAGES, LABELS)).repeat(), max_steps=STEPS)
    return {name: trained.get_variable_value(name) for name in trained.get_variable_names()}


@pytest.mark.parametrize(
    ("recompute", "by_hand"), [(True, True), (False, False)], ids=["by_hand", "by_tensorflow"]
)
def test_towers_learn_what_one_device_learns(recompute, by_hand):
    params = {"recompute": recompute, "by_hand": by_hand}
    want, got = (weights_after_steps(towers, params) for towers in (1, 2))
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
