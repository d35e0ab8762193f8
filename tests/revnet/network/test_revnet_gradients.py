"""Gradients of a whole network against those of the same network in plain code, everywhere."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from bodies import matching
from examples.revnet import RevNet
from revnet import revnet_networks as networks
from revnet.revnet_networks import eager, error

tf2 = tf.compat.v2
EXACT = 1e-12
LABELS = ("integer", "one_hot", "soft")


def by_tape(model, images, labels):
    with tf.GradientTape() as tape:
        logits, _ = model(images, training=True)
        loss = model.training_loss(labels, logits)
    return loss, tape.gradient(loss, model.trainable_variables)


def by_hand(model, images, labels):
    _, saved_hidden = model(images, training=True)
    gradients, loss = model.compute_gradients(saved_hidden, labels)
    return loss, gradients


def by_tf_gradients(model, images, labels):
    logits, _ = model(images, training=True)
    loss = model.training_loss(labels, logits)
    return loss, tf.gradients(loss, model.trainable_variables)


WAYS = {"tape": by_tape, "by hand": by_hand, "tf.gradients": by_tf_gradients}


def check(model, images, labels, found, seeds=None):
    loss, gradients = found
    expected_loss, expected = networks.expected(model, images, labels, seeds)
    assert error([loss], [expected_loss]) < EXACT
    assert error(gradients, expected) < EXACT


@pytest.mark.conformance
@pytest.mark.parametrize("way", ["tape", "by hand"])
@pytest.mark.parametrize("kind", networks.KINDS)
def test_eager(kind, way):
    config = networks.config(kind)
    images, labels = networks.batch(config)
    with eager():
        model = networks.made(config)
        found = WAYS[way](model, tf.constant(images), tf.constant(labels))
        check(model, images, labels, found)


@pytest.mark.parametrize("way", ["tape", "by hand"])
def test_stored_activations(way):
    config = networks.config("bottleneck", recompute=False)
    images, labels = networks.batch(config)
    with eager():
        model = networks.made(config)
        check(model, images, labels, WAYS[way](model, tf.constant(images), tf.constant(labels)))


@pytest.mark.conformance
@pytest.mark.parametrize("way", ["tape", "by hand"])
def test_function_is_traced_once(way):
    config = networks.config()
    with eager():
        model = networks.made(config)
        step = tf2.function(lambda images, labels: WAYS[way](model, images, labels))
        for seed in range(3):
            images, labels = networks.batch(config, seed=seed)
            check(model, images, labels, step(tf.constant(images), tf.constant(labels)))
        assert step.experimental_get_tracing_count() == 1


@pytest.mark.thorough
def test_function_of_any_number_of_rows_is_traced_once():
    config = networks.config("strides")
    with eager():
        model = networks.made(config)
        signature = [
            tf.TensorSpec([None, *config.image_shape], tf.float64),
            tf.TensorSpec([None], tf.int32),
        ]
        step = tf2.function(lambda *rows: by_tape(model, *rows), input_signature=signature)
        for rows in (3, 8, 1):
            images, labels = networks.batch(config, rows)
            check(model, images, labels, step(tf.constant(images), tf.constant(labels)))
        assert step.experimental_get_tracing_count() == 1


@pytest.mark.parametrize(
    "kind, recompute, way",
    [
        *[pytest.param("basic", True, way, marks=pytest.mark.thorough) for way in WAYS],
        ("max_pool", True, "tf.gradients"),
        ("basic", False, "tf.gradients"),
    ],
)
def test_graph(kind, recompute, way):
    config = networks.config(kind, recompute=recompute)
    arrays = images, labels = networks.batch(config)
    model = RevNet(config)
    scattered = networks.scatter(model, apply=tf.assign)
    of_step = WAYS[way](model, *map(tf.constant, arrays))
    with networks.session() as session:
        session.run(tf.global_variables_initializer())
        session.run(scattered)
        found = session.run(of_step)
        values = session.run(model.variables)
    with eager():
        same = RevNet(config)
        same.set_weights(_in_order(same, model.variables, values))
        check(same, images, labels, found)


def _in_order(model, variables, values):
    by_place = {networks.place(variable): value for variable, value in zip(variables, values)}
    return [by_place[networks.place(variable)] for variable in model.weights]


def test_minimize_in_a_graph():
    config = networks.config()
    arrays = images, labels = networks.batch(config)
    model = RevNet(config)
    logits, _ = model(tf.constant(images), training=True)
    loss = model.training_loss(tf.constant(labels), logits)
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with networks.session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(model.trainable_variables)
        session.run(step)
        after = session.run(model.trainable_variables)
    with eager():
        same = RevNet(config)
        _, expected = networks.expected(same, *arrays)
    assert error(after, [w - 0.5 * gradient for w, gradient in zip(before, expected)]) < EXACT


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("way", ["tape", "by hand"])
def test_labels(kind, way):
    config = networks.config("max_pool")
    images, labels = networks.batch(config, labels=kind)
    with eager():
        model = networks.made(config)
        check(model, images, labels, WAYS[way](model, tf.constant(images), tf.constant(labels)))


def test_classes_of_any_integer_type_and_probabilities_of_any_float():
    config = networks.config("max_pool")
    images, labels = networks.batch(config)
    with eager():
        model = networks.made(config)
        for cast in (np.int64, np.int32, np.uint8):
            found = by_hand(model, images, labels.astype(cast))
            check(model, images, labels, found)
        probabilities = np.eye(config.num_classes, dtype=np.float32)[labels]
        check(model, images, labels, by_hand(model, images, probabilities))


def test_penalties_are_of_kernels_alone():
    images, labels = networks.batch(networks.config())
    with eager():
        plain, decayed = (networks.made(networks.config(weight_decay=d)) for d in (0.0, 0.3))
        arguments = tf.constant(images), tf.constant(labels)
        (_, without), (_, found) = by_hand(plain, *arguments), by_hand(decayed, *arguments)
        for variable, gradient, penalised in zip(decayed.trainable_variables, without, found):
            is_kernel = networks.place(variable).endswith("kernel")
            penalty = 0.3 * variable if is_kernel else tf.zeros_like(variable)
            np.testing.assert_allclose(penalised, gradient + penalty, rtol=1e-9, atol=1e-14)
        kernels = [v for v in decayed.trainable_variables if networks.place(v).endswith("kernel")]
        assert len(decayed.losses) == len(kernels)
        assert not plain.losses


def test_scaled_loss():
    config = networks.config()
    images, labels = networks.batch(config)
    with eager():
        model = networks.made(config)
        _, saved_hidden = model(tf.constant(images), training=True)
        gradients, loss = model.compute_gradients(
            saved_hidden, tf.constant(labels), scale_loss=lambda loss: 8 * loss
        )
        check(model, images, labels, (loss, [gradient / 8 for gradient in gradients]))


def test_what_was_saved_is_not_used_up():
    config = networks.config(dropout_rate=0.3)
    images, labels = networks.batch(config)
    with eager():
        model = networks.made(config)
        _, saved_hidden = model(tf.constant(images), training=True)
        first, again = (
            model.compute_gradients(saved_hidden, tf.constant(labels)) for _ in range(2)
        )
        tf.nest.map_structure(np.testing.assert_array_equal, first, again)


def test_a_tape_that_is_used_twice():
    config = networks.config()
    images, labels = networks.batch(config)
    with eager():
        model = networks.made(config)
        with tf.GradientTape(persistent=True) as tape:
            logits, _ = model(tf.constant(images), training=True)
            loss = model.training_loss(tf.constant(labels), logits)
        for _ in range(2):
            check(model, images, labels, (loss, tape.gradient(loss, model.trainable_variables)))


def test_gradients_for_images():
    config = networks.config("strides")
    with eager():
        images, labels = map(tf.constant, networks.batch(config))
        found = []
        for recompute in (True, False):
            model = networks.made(networks.config("strides", recompute=recompute))
            with tf.GradientTape() as tape:
                tape.watch(images)
                logits, _ = model(images, training=True)
                loss = model.training_loss(labels, logits)
            found.append(tape.gradient(loss, images))
    assert error(found[:1], found[1:]) < EXACT


@pytest.mark.parametrize("way", ["tape", "by hand"])
@pytest.mark.parametrize(
    "kind, recompute",
    [
        ("bottleneck", True),
        pytest.param("basic", True, marks=pytest.mark.thorough),
        pytest.param("basic", False, marks=pytest.mark.thorough),
    ],
)
def test_dropout_replays_its_mask(kind, recompute, way):
    config = networks.config(kind, dropout_rate=0.4, recompute=recompute)
    images, labels = networks.batch(config)
    with eager():
        tf.set_random_seed(4)
        model = networks.made(config)
        losses = []
        for _ in range(2):
            saved, find = _keeping_saved(model)
            found = find(WAYS[way], tf.constant(images), tf.constant(labels))
            check(model, images, labels, found, networks.dropout_seeds(saved[-1]))
            losses.append(float(found[0]))
        assert losses[0] != losses[1]  # Every step drops others.


def _keeping_saved(model):
    """Returns a list, and a function that computes gradients and appends what was saved to it."""
    saved = []

    def called(*args, **kwargs):
        outputs = model(*args, **kwargs)
        saved.append(outputs[1])
        return outputs

    class Recorded:
        trainable_variables = model.trainable_variables
        training_loss = model.training_loss
        compute_gradients = model.compute_gradients
        __call__ = staticmethod(called)

    return saved, lambda way, *args: way(Recorded(), *args)


def test_the_share_that_is_dropped():
    config = networks.config(dropout_rate=0.25, image_shape=(32, 32, 3))
    with eager():
        tf.set_random_seed(4)
        model = networks.made(config)
        residual = model.body.stages[0][1].f
        ones = tf.ones([8, 32, 32, 4], tf.float64)
        dropped = residual._drop(ones, tf.constant([1, 2])).numpy()
    assert set(np.unique(dropped)) == {0.0, 1 / 0.75}
    assert abs(np.mean(dropped == 0) - 0.25) < 0.01


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({}, "Gradients are computed from what training saved…`saved_hidden` is None…Pass what"),
        ({"training": False}, "Gradients are computed from what…`training` is false…Pass what"),
    ],
)
def test_no_gradients_of_inference(arguments, text):
    config = networks.config()
    images, labels = map(tf.constant, networks.batch(config))
    model = RevNet(config)
    _, saved_hidden = model(images, training=False)
    assert saved_hidden is None
    if arguments:
        _, saved_hidden = model(images, training=True)
    with pytest.raises(ValueError, match=matching(text)):
        model.compute_gradients(saved_hidden, labels, **arguments)


@pytest.mark.parametrize("shape", [(6, 7, 9, 3), (6, 9, 7, 1), (9, 7, 3)])
def test_images_of_another_shape(shape):
    text = "Images must be of shape [n, 9, 7, 3]…but they are…Resize or transpose them"
    with pytest.raises(ValueError, match=matching(text)):
        RevNet(networks.config())(tf.zeros(shape))


@pytest.mark.parametrize("kind", ["basic", "max_pool"])
def test_channels_first(kind):
    """On a CPU in float32, where strides divide the images or not."""
    config = networks.config(kind, dtype="float32", data_format="channels_first")
    images, labels = networks.batch(config)
    with eager():
        model = networks.made(config)
        loss, gradients = by_hand(model, tf.constant(images, tf.float32), tf.constant(labels))
        expected_loss, expected = networks.expected(model, images, labels)
        assert error([loss], [expected_loss]) < 1e-5
        assert error(gradients, expected) < 1e-3
