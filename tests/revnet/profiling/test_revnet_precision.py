"""Convolutions in 16 bits: what stays float32, and how close gradients and inverse are."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.revnet.profiling import precision
from revnet import revnet_networks as networks
from revnet.revnet_networks import eager

_FIGURES = ("reconstruction_error", "gradient_difference", "gradient_difference_max")
TYPES = {"bfloat16": 0.98, "float16": 0.999}


def _gradients(dtype, recompute=True, scale_loss=None):
    config = networks.config(dtype=dtype, recompute=recompute, image_shape=(8, 8, 3))
    images, labels = networks.batch(config, rows=16)
    model = networks.made(config)
    logits, saved_hidden = model(tf.constant(images, tf.float32), training=True)
    gradients, _ = model.compute_gradients(saved_hidden, tf.constant(labels), scale_loss=scale_loss)
    stream = [logits, *saved_hidden.hidden, *model.variables, *gradients]
    assert {each.dtype.base_dtype for each in stream} == {tf.float32}
    return np.concatenate([np.ravel(gradient) for gradient in gradients])


@pytest.mark.parametrize("dtype", TYPES)
def test_gradients_are_close_to_those_of_float32(dtype):
    with eager():
        wanted, found, stored = _gradients("float32"), _gradients(dtype), _gradients(dtype, False)
    for each, other, cosine in ((found, wanted, TYPES[dtype]), (found, stored, 0.999)):
        norms = np.linalg.norm(each), np.linalg.norm(other)
        assert each @ other / (norms[0] * norms[1]) > cosine
        assert norms[0] == pytest.approx(norms[1], rel=0.05)


@pytest.mark.parametrize("dtype, bound", [("float32", 1e-5), ("bfloat16", 2e-2), ("float16", 2e-2)])
def test_reconstruction(dtype, bound):
    """F and G are replayed bit for bit unless what they take was rounded the other way."""
    with eager():
        model = networks.made(networks.config(dtype=dtype))
        unit = model.body.stages[0][1]
        random = np.random.RandomState(0)
        x = tuple(tf.constant(random.normal(size=(4, 6, 6, 4)), tf.float32) for _ in range(2))
        y, kept, _ = unit.forward(x, unit.values())
        found, _, _ = unit.backward(None, y, x, kept)
        assert networks.error(found, x) < bound


def test_scaled_loss_in_float16():
    with eager():
        wanted = _gradients("float16")
        found = _gradients("float16", scale_loss=lambda loss: 64 * loss) / 64
    assert found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted) > 0.9999


@pytest.mark.parametrize(
    "dtype, units, train_steps",
    [
        pytest.param("float64", 3, 2, marks=pytest.mark.thorough),
        pytest.param("float32", 3, 2, marks=pytest.mark.thorough),
        pytest.param("float64", 18, 10, marks=pytest.mark.thorough),
        pytest.param("float32", 18, 10, marks=pytest.mark.thorough),
    ],
)
def test_how_exact_a_trained_network_is(dtype, units, train_steps):
    config = networks.config(
        dtype=dtype, image_shape=(8, 8, 3), units=(units, 2), filters=(16, 16), seed=1
    )
    with eager():
        before, found = (precision.measure(config, 8, steps) for steps in (0, train_steps))
    assert found["loss"] != before["loss"]
    for figures in (before, found):
        errors = [figures[name] for name in _FIGURES]
        assert all(0 < error < (1e-9 if dtype == "float64" else 2e-2) for error in errors)
        # Rounded in each unit, else nothing would have been reconstructed.
        assert errors[0] > np.finfo(dtype).eps / 2
