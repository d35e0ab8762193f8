"""Optimizers that override methods, or whose attributes are set, train as they do alone."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from versions import legacy

NOT_APPLIED = "does not call `self.apply_gradients`"
SGD = tf.train.GradientDescentOptimizer


class Penalized(SGD):
    """Adds a penalty to the loss in `minimize`, and takes an argument of its own."""

    def minimize(self, loss, global_step=None, factor=0.5):
        weights = tf.trainable_variables()
        penalty = factor * tf.add_n([tf.nn.l2_loss(weight) for weight in weights])
        pairs = self.compute_gradients(loss + tf.cast(penalty, loss.dtype))
        return self.apply_gradients(pairs, global_step)


class Decaying(SGD):
    """Decays variables after `minimize`."""

    def minimize(self, loss, global_step=None, **kwargs):
        with tf.control_dependencies([super().minimize(loss, global_step, **kwargs)]):
            return tf.group(*[weight.assign(0.9 * weight) for weight in tf.trainable_variables()])


class Centralized(legacy.SGD):
    """Centralizes gradients."""

    def get_gradients(self, loss, params):
        gradients = super().get_gradients(loss, params)
        return [gradient - 0.5 * tf.reduce_mean(gradient) for gradient in gradients]


class Updating(legacy.SGD):
    """Decays variables in `get_updates`."""

    def get_updates(self, loss, params):
        with tf.control_dependencies(super().get_updates(loss, params)):
            return [weight.assign(0.9 * weight) for weight in params]


class Elsewhere(SGD):
    """Applies gradients by another optimizer."""

    def minimize(self, loss, global_step=None):
        return SGD(0.1).minimize(loss, global_step)


class UpdatingElsewhere(legacy.SGD):
    def get_updates(self, loss, params):
        return [SGD(0.1).minimize(loss)]


def model(train):
    """Returns a `model_fn`; `train` makes the train operation."""

    def model_fn(features, labels, mode, params):
        glorot = tf.glorot_uniform_initializer(seed=4)
        w = tf.get_variable("w", [4, 1], tf.float64, glorot, use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.tanh(features["x"] @ w) - labels))
        train_op = train(params["wrap"], loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def by_minimize(make, **kwargs):
    def train(wrap, loss):
        return wrap(make(0.1)).minimize(loss, global_step=tf.train.get_global_step(), **kwargs)

    return model(train)


def by_updates(make, change=lambda optimizer: None):
    def train(wrap, loss):
        optimizer = wrap(make(0.1))
        change(optimizer)
        updates = optimizer.get_updates(loss, tf.trainable_variables())
        return tf.group(*updates, tf.assign_add(tf.train.get_global_step(), 1))

    return model(train)


def faster(optimizer):
    optimizer.learning_rate = 0.5
    assert "learning_rate" not in vars(optimizer)


def clipping(optimizer):
    optimizer.clipnorm = 0.01


MODELS = {
    "minimize": by_minimize(Penalized),
    "minimize with an argument": by_minimize(Penalized, factor=2.0),
    "minimize by super": by_minimize(Decaying),
    "get_gradients": by_updates(Centralized),
    "get_updates": by_updates(Updating),
    "learning_rate": by_updates(legacy.SGD, faster),
    "clipnorm": by_updates(legacy.SGD, clipping),
}
PLAIN = {**dict.fromkeys(MODELS, by_updates(legacy.SGD)), "minimize": by_minimize(SGD)}


@pytest.mark.parametrize("num_towers", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_towers_train_as_the_optimizer_alone(name, num_towers):
    want = contract.record_one_device(MODELS[name], contract.UNEVEN)
    got = contract.record_towers(MODELS[name], contract.UNEVEN, num_towers)
    contract.assert_same_run(got, want, rtol=1e-12)
    plain = contract.record_one_device(PLAIN[name], contract.UNEVEN)
    assert abs(np.subtract(plain.losses, want.losses)).max() > 1e-4


def test_options_process_what_it_applies():
    """The penalty is a part of the loss, so it is scaled, clipped and accumulated with it."""
    options = {"clip_norm": 1e-2, "loss_scale": 8.0}
    got = contract.record_towers(MODELS["minimize"], contract.UNEVEN, 2, wrapped=options)
    want = contract.record_one_device(by_minimize(lambda rate: Clipped(rate)), contract.UNEVEN)
    contract.assert_same_run(got, want, rtol=1e-12)


class Clipped(Penalized):
    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        gradients, variables = zip(*grads_and_vars)
        gradients, _ = tf.clip_by_global_norm(gradients, 1e-2)
        return super().apply_gradients(zip(gradients, variables), global_step, name)


def test_its_methods_are_its_own_again_afterwards():
    with tf.Graph().as_default():
        w = tf.get_variable("w", [], use_resource=True)
        inner = Penalized(0.1)
        replicate.TowerOptimizer(inner).minimize(tf.square(w))
        assert "compute_gradients" not in vars(inner) and "apply_gradients" not in vars(inner)


@pytest.mark.parametrize("method", ["minimize", "get_updates"])
def test_one_that_applies_gradients_elsewhere_is_refused(method):
    with tf.Graph().as_default():
        w = tf.get_variable("w", [], use_resource=True)
        with pytest.raises(TypeError, match=f"{method}` {NOT_APPLIED}"):
            if method == "minimize":
                replicate.TowerOptimizer(Elsewhere(0.1)).minimize(tf.square(w))
            else:
                replicate.TowerOptimizer(UpdatingElsewhere(0.1)).get_updates(tf.square(w), [w])


def test_attributes_that_it_does_not_have_are_those_of_the_optimizer():
    with tf.Graph().as_default():
        optimizer = replicate.TowerOptimizer(SGD(0.1))
        optimizer.note = "read by the optimizer"
        optimizer.averages_losses = True
        assert optimizer.note == optimizer.optimizer.note == "read by the optimizer"
        assert not hasattr(optimizer.optimizer, "averages_losses")
