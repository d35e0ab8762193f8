"""Convolutions in 16 bits: what stays float32, and how close gradients and inverse are."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import revnet_networks as networks
from revnet_networks import eager

TYPES = {"bfloat16": 0.98, "float16": 0.999}


def _gradients(dtype, recompute=True, scale_loss=None):
    config = networks.config(dtype=dtype, recompute=recompute, image_shape=(8, 8, 3))
    images, labels = networks.batch(config, rows=16)
    model = networks.made(config)
    logits, saved_hidden = model(tf.constant(images, tf.float32), training=True)
    gradients, _ = model.compute_gradients(saved_hidden, tf.constant(labels), scale_loss=scale_loss)
    stream = [logits, *saved_hidden[2], *model.variables, *gradients]
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


@pytest.mark.parametrize("dtype, bound", [("float32", 1e-5), ("bfloat16", 1e-5), ("float16", 1e-5)])
def test_reconstruction(dtype, bound):
    """F and G are replayed bit for bit unless what they take was rounded the other way."""
    with eager():
        model = networks.made(networks.config(dtype=dtype))
        unit = model.body.stages[0][1]
        random = np.random.RandomState(0)
        x = tuple(tf.constant(random.normal(size=(4, 6, 6, 4)), tf.float32) for _ in range(2))
        y, kept, _ = unit.forward(x, unit.values())
        found, _, _ = unit.backward_grads(None, y, x, kept)
        assert networks.error(found, x) < (bound if dtype == "float32" else 2e-2)


def test_scaled_loss_in_float16():
    with eager():
        wanted = _gradients("float16")
        found = _gradients("float16", scale_loss=lambda loss: 64 * loss) / 64
    assert found @ wanted / np.linalg.norm(found) / np.linalg.norm(wanted) > 0.9999
