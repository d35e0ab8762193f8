"""Moving statistics against Keras' own layer, and inference by them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from examples.revnet import RevNet
from revnet import revnet_networks as networks
from revnet.revnet_networks import eager, error

tf2 = tf.compat.v2
STEPS = 3


def moving(model):
    return {
        networks.place(variable): variable
        for variable in model.variables
        if networks.place(variable).endswith(("moving_mean", "moving_variance"))
    }


def expected(config, batches):
    """Returns moving statistics by place, of Keras layers that see the same."""
    with eager():
        model = RevNet(config)
        weights = {networks.place(v): tf.convert_to_tensor(v) for v in model.variables}
        layers = {}
        for images in batches:
            plain = networks.Plain(config, weights)
            plain.logits(tf.constant(images, config.dtype))
            for at, x in plain.inputs.items():
                if at not in layers:
                    layers[at] = tf.keras.layers.BatchNormalization(  # replicate: ignore
                        momentum=config.batch_norm_momentum, dtype=config.dtype, fused=True
                    )
                layers[at](x, training=True)
        return {
            f"{at}/{name}": getattr(layer, name).numpy()
            for at, layer in layers.items()
            for name in ("moving_mean", "moving_variance")
        }


def _check(found, config, batches):
    wanted = expected(config, batches)
    assert set(found) == set(wanted)
    assert error([found[at] for at in wanted], list(wanted.values())) < 1e-5


def _gradients(model, images, labels, by_hand):
    if by_hand:
        _, saved_hidden = model(images, training=True)
        return model.compute_gradients(saved_hidden, labels)[0]
    with tf.GradientTape() as tape:
        logits, _ = model(images, training=True)
        loss = model.training_loss(labels, logits)
    return tape.gradient(loss, model.trainable_variables)


def _setting(**fields):
    config = networks.config(dtype="float32", batch_norm_momentum=0.8, **fields)
    pairs = [networks.batch(config, seed=seed) for seed in range(STEPS)]
    images = [images.astype(np.float32) for images, _ in pairs]
    return config, images, [labels for _, labels in pairs]


@pytest.mark.conformance
@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("wrap", [lambda step: step, tf2.function], ids=["eager", "function"])
def test_statistics_move_once_per_step(wrap, by_hand):
    config, images, labels = _setting()
    with eager():
        model = RevNet(config)
        step = wrap(lambda *arrays: _gradients(model, *arrays, by_hand))
        for arrays in zip(images, labels):
            step(*map(tf.constant, arrays))
        found = {at: variable.numpy() for at, variable in moving(model).items()}
    _check(found, config, images)


@pytest.mark.parametrize("by_hand", [False, True])
def test_statistics_move_once_per_step_in_a_graph(by_hand):
    config, images, labels = _setting()
    model = RevNet(config)
    image, label = (tf.placeholder(each[0].dtype, each[0].shape) for each in (images, labels))
    gradients = _gradients(model, image, label, by_hand)
    assert len(model.updates) == len(moving(model))
    with networks.session() as session:
        session.run(tf.global_variables_initializer())
        for arrays in zip(images, labels):
            session.run([gradients, model.updates], dict(zip((image, label), arrays)))
        found = session.run(moving(model))
    _check(found, config, images)


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
def test_inference(kind):
    config = networks.config(kind, dropout_rate=0.5)
    images, _ = networks.batch(config)
    with eager():
        model = networks.made(config)
        before = [variable.numpy() for variable in model.variables]
        logits, saved_hidden = model(tf.constant(images))
        assert saved_hidden is None
        weights = {networks.place(v): tf.convert_to_tensor(v) for v in model.variables}
        plain = networks.Plain(config, weights).logits(tf.constant(images), training=False)
        assert error([logits], [plain]) < 1e-12
        assert error(before, model.variables) == 0


def test_a_graph_of_inference_has_no_updates():
    config = networks.config()
    model = RevNet(config)
    model(tf.constant(networks.batch(config)[0]))
    assert not model.updates
