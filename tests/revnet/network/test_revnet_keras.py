"""A RevNet as a Keras model: initial weights, names, saving, and training by Keras itself."""

import dataclasses

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from bodies import matching
from examples.revnet import RevNet
from revnet import revnet_networks as networks
from revnet.revnet_networks import eager, error

tf2 = tf.compat.v2
KIND = "max_pool"  # the smallest


def _values(model):
    return {networks.place(variable): variable.numpy() for variable in model.variables}


def _same(values, others):
    return [np.array_equal(values[at], others[at]) for at in values if at.endswith("kernel")]


def test_initial_weights_by_seed():
    config = networks.config(KIND)
    with tf.Graph().as_default():
        model = RevNet(config)
        by_place = {networks.place(variable): variable for variable in model.variables}
        with networks.session() as session:
            session.run(tf.global_variables_initializer())
            in_graph = session.run(by_place)
    with eager():
        first = _values(RevNet(config))
        assert all(_same(first, _values(RevNet(config, "other"))))
        assert all(_same(first, in_graph))
        assert not any(_same(first, _values(RevNet(networks.config(KIND, seed=4)))))
        drawn = networks.config(KIND, seed=None)
        assert not any(_same(_values(RevNet(drawn)), _values(RevNet(drawn))))
    units = [first[f"stage_1/unit_1/{name}/layer_1/kernel"] for name in "fg"]
    assert not np.array_equal(*units)


def test_initial_scale():
    with eager():
        kernel = RevNet(networks.config(filters=(64, 128))).body.stages[1][1].f.trainable_weights[0]
        assert np.std(kernel) == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.03)


def test_names():
    with eager():
        names = [variable.name for variable in RevNet(networks.config(KIND)).variables]
    assert len(set(names)) == len(names)
    assert names[0] == "rev_net/stem/kernel:0"
    assert "rev_net/stage_1/unit_1/g/layer_1/moving_variance:0" in names
    assert {"rev_net/head/dense/kernel:0", "rev_net/head/batch_norm/gamma:0"} < set(names)


def test_two_models_in_one_graph():
    config = networks.config(KIND)
    one, other = RevNet(config), RevNet(config, "other")
    names = [variable.op.name for variable in [*one.variables, *other.variables]]
    assert len(set(names)) == len(names)


def test_config_round_trip():
    model = RevNet(networks.config(KIND), "other")
    again = RevNet.from_config(model.get_config())
    assert (again.config, again.name) == (model.config, model.name)


def test_saved_weights(tmp_path):
    config = networks.config(KIND)
    with eager():
        images = tf.constant(networks.batch(config)[0])
        model = networks.made(config)
        logits, _ = model(images)
        model.save_weights(str(tmp_path / "weights"))
        tf.train.Checkpoint(model=model).write(str(tmp_path / "checkpoint"))
        for read in (
            lambda other: other.load_weights(str(tmp_path / "weights")),
            lambda other: (
                tf2.train.Checkpoint(model=other)
                .read(str(tmp_path / "checkpoint"))
                .assert_consumed()
            ),
        ):
            other = RevNet(networks.config(KIND, seed=9))
            read(other)
            assert error([other(images)[0]], [logits]) == 0


def test_saved_model(tmp_path):
    config = networks.config(KIND)
    with eager():
        images = tf.constant(networks.batch(config)[0])
        model = networks.made(config)
        specification = tf.TensorSpec([None, *config.image_shape], tf.float64, name="images")
        serve = tf2.function(lambda images: {"logits": model(images)[0]}, [specification])
        tf2.saved_model.save(model, str(tmp_path), signatures=serve)
        loaded = tf2.saved_model.load(str(tmp_path)).signatures["serving_default"]
        assert error([loaded(images=images)["logits"]], [model(images)[0]]) < 1e-12


class Classifier(tf.keras.Model):
    """Returns logits alone, as Keras' own training wants them."""

    def __init__(self, net):
        super().__init__(dtype="float64")
        self.net = net

    def call(self, images, training=False):
        return self.net(images, training=training)[0]


@pytest.mark.thorough
def test_fit_of_a_model_around_it():
    config = networks.config(KIND)
    images, labels = networks.batch(config)
    with eager():
        model = Classifier(networks.made(config))
        _, gradients = networks.expected(model.net, images, labels)
        before = [variable.numpy() for variable in model.trainable_variables]
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf2.keras.optimizers.legacy.SGD(0.25), loss)
        model.fit(images, labels, batch_size=6, epochs=1, verbose=0)
        wanted = [w - 0.25 * gradient for w, gradient in zip(before, gradients)]
        assert error(model.trainable_variables, wanted) < 1e-7


@pytest.mark.parametrize("freeze", [lambda model: model, lambda model: model.body])
def test_a_frozen_network_infers(freeze):
    config = networks.config(KIND)
    with eager():
        images = tf.constant(networks.batch(config)[0])
        model = networks.made(config)
        logits, _ = model(images)
        freeze(model).trainable = False
        assert error([model(images)[0]], [logits]) == 0


@pytest.mark.parametrize("by_hand", [False, True])
def test_frozen_weights_get_no_gradient_and_change_no_other(by_hand):
    config = networks.config(KIND)
    images, labels = networks.batch(config)
    with eager():
        model = networks.made(config)
        _, gradients = networks.expected(model, images, labels)
        wanted = dict(zip(map(id, model.trainable_variables), gradients))
        for frozen in (model.body.stages[1][1].f, model.head, model.stem, model.body):
            frozen.trainable = False
            left = model.trainable_variables
            assert len(left) < len(wanted)
            if not left:
                return
            if by_hand:
                _, saved_hidden = model(tf.constant(images), training=True)
                found, _ = model.compute_gradients(saved_hidden, labels)
            else:
                with tf.GradientTape() as tape:
                    logits, _ = model(tf.constant(images), training=True)
                    loss = model.training_loss(labels, logits)
                found = tape.gradient(loss, left)
            assert error(found, [wanted[id(variable)] for variable in left]) < 1e-9


def test_gradients_of_first_order_only():
    text = "A RevNet that recomputes…gradients of first order only…Make it with `recompute=False`"
    config = networks.config(KIND)
    images, labels = networks.batch(config)
    with eager():
        for recompute in (True, False):
            model = networks.made(dataclasses.replace(config, recompute=recompute))
            with tf.GradientTape() as outer:
                with tf.GradientTape() as tape:
                    logits, _ = model(tf.constant(images), training=True)
                    loss = model.training_loss(labels, logits)
                gradients = tape.gradient(loss, model.trainable_variables)
                penalty = tf.add_n([tf.reduce_sum(gradient**2) for gradient in gradients])
            if recompute:
                with pytest.raises(LookupError, match=matching(text)):
                    outer.gradient(penalty, model.trainable_variables)
            else:
                second = outer.gradient(penalty, model.trainable_variables)
                assert all(np.any(gradient) for gradient in second[:3])
