"""An optimizer that is not wrapped would train on each tower's rows by itself: an error."""

import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import TRAIN, build, control_flow, good, matching, spec

UNWRAPPED = (
    "Every optimizer in a replicated `model_fn` must be wrapped…'w:0'…in tower 1 by tower_1/"
    "…`optimizer = replicate.TowerOptimizer(optimizer)`"
)


class HandAssigning(tf.train.Optimizer):
    """An optimizer that updates by itself, as BERT's does."""

    def __init__(self):
        super().__init__(False, "HandAssigning")

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        return tf.group(*[variable.assign(variable - g) for g, variable in grads_and_vars])


OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(),
    "keras": lambda: tf.keras.optimizers.legacy.SGD(0.1),
    "hand-assigning": HandAssigning,
}


def _train(optimizer, features, name="w", **kwargs):
    w = tf.get_variable(name, [], initializer=tf.ones_initializer(), **kwargs)
    loss = tf.reduce_mean(w * features)
    if hasattr(optimizer, "get_updates"):
        return tf.group(optimizer.get_updates(loss, [w]))
    return optimizer.apply_gradients(optimizer.compute_gradients(loss, [w]))


@pytest.mark.parametrize("kwargs", [{}, {"use_resource": False}], ids=["resource", "ref"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "beside a wrapped one"])
@pytest.mark.parametrize("optimizer", list(OPTIMIZERS.values()), ids=list(OPTIMIZERS))
def test_an_optimizer_that_is_not_wrapped(optimizer, wrapped, kwargs):
    if kwargs and hasattr(optimizer(), "get_updates"):
        kwargs = {}  # Keras takes no other variables.

    def body(index, features):
        other = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.1))
        before = [_train(other, features, "v")] if wrapped else []
        return spec(TRAIN, train_op=tf.group(before, _train(optimizer(), features, **kwargs)))

    with pytest.raises(ValueError, match=matching(UNWRAPPED)):
        build(body)


@pytest.mark.parametrize("version", [1, 2])
def test_an_optimizer_that_is_not_wrapped_in_a_condition(version):
    def body(index, features):
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        w = tf.get_variable("w", [])
        loss = tf.reduce_mean(w * features)
        grads = optimizer.compute_gradients(loss, [w])
        update = tf.cond(loss > 0, lambda: optimizer.apply_gradients(grads), tf.no_op)
        return spec(TRAIN, loss, update)

    with control_flow(version), pytest.raises(ValueError, match=matching(UNWRAPPED)):
        build(body)


def test_an_optimizer_that_is_not_wrapped_and_variables_from_before():
    tf.get_variable("w", [])
    with tf.variable_scope("", reuse=tf.AUTO_REUSE), pytest.raises(
        ValueError, match=matching(UNWRAPPED)
    ):
        build(lambda _, features: spec(TRAIN, train_op=_train(OPTIMIZERS["sgd"](), features)))


def test_weights_may_be_assigned_beside_a_wrapped_optimizer():
    def body(index, features):
        made = good(index, features)
        (weight,) = tf.trainable_variables()
        with tf.control_dependencies([made.train_op]):
            clip = weight.assign(tf.clip_by_value(weight, -0.5, 0.5))
        return made._replace(train_op=tf.group(made.train_op, clip))

    build(body)  # Raises nothing.
