"""Gradients that code outside of a `model_fn` takes of its loss, and what it trains by them."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import control_flow, matching

DEVICES = [f"/cpu:{i}" for i in range(3)]
ROWS = np.random.RandomState(3).normal(size=(7, 4))
PLACEMENTS = ["consolidation", "round_robin", "replicated"]
TEXT = "a gradient of 'o' is taken outside of the `model_fn`…place variables by 'consolidation'"
TEXT_OF_LOOPS = (
    "a gradient through the loop '…while…' is taken outside of the `model_fn`…Take it inside of"
)
# TensorFlow 1.15 says this of looked-up rows whose number is not known.
pytestmark = pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices:UserWarning")


def is_not_trained(features, labels, mode):
    w, o, table = (
        tf.get_variable(name, shape, tf.float64, tf.ones_initializer(), use_resource=True)
        for name, shape in (("w", [4, 5]), ("o", [5, 1]), ("table", [3, 4]))
    )
    words = tf.cast(tf.abs(features["x"][:, 0]) * 2, tf.int32) % 3
    made = tf.tanh((features["x"] + tf.nn.embedding_lookup(table, words)) @ w * [1, 2, 3, 4, 5]) @ o
    loss = tf.reduce_mean((made - labels) ** 2)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.no_op())


def is_trained(features, labels, mode):
    spec = is_not_trained(features, labels, mode)
    optimizer = tf.train.GradientDescentOptimizer(0.01)
    return spec._replace(train_op=optimizer.minimize(spec.loss, tf.train.get_global_step()))


def run(model_fn, placement, use, steps=4):
    """Returns the losses, and what `use(spec, features)` gives, in some steps of a session.

    Without a placement, the model runs on one device.
    """
    with tf.Graph().as_default():
        tf.train.create_global_step()
        data = tf.data.Dataset.from_tensors(({"x": ROWS}, np.sin(ROWS[:, :1]))).repeat()
        features, labels = tf.data.make_one_shot_iterator(data).get_next()
        if placement:
            model_fn = replicate.replicate_model_fn(
                model_fn, devices=DEVICES, variable_placement=placement
            )
        spec = model_fn(features, labels, mode="train")
        fetched = spec.loss, use(spec, features), spec.train_op
        creator = tf.train.ChiefSessionCreator(
            spec.scaffold or tf.train.Scaffold(), config=replicate.session_config(DEVICES)
        )
        with tf.train.MonitoredSession(creator, list(spec.training_hooks)) as session:
            steps = [session.run(fetched)[:2] for _ in range(steps)]
    return [np.asarray(one) for one in tf.nest.flatten(steps) if one is not None]


def trained_by(optimizer):
    return lambda spec, features: optimizer().minimize(spec.loss, tf.train.get_global_step())


def of_variables(spec, features):
    return [tf.convert_to_tensor(one) for one in tf.gradients(spec.loss, tf.trainable_variables())]


def of_features(spec, features):
    return tf.gradients(spec.loss, features["x"])


USES = {
    "sgd": (is_not_trained, trained_by(lambda: tf.train.GradientDescentOptimizer(0.1))),
    "momentum": (is_not_trained, trained_by(lambda: tf.train.MomentumOptimizer(0.1, 0.9))),
    "of variables": (is_trained, of_variables),
    "of features": (is_trained, of_features),
}
REFUSED = "of variables", "replicated"  # The towers' replicas are no part of the graph's gradient.


def check(got, want):
    assert len(want) == len(got)
    for mine, other in zip(got, want):
        np.testing.assert_allclose(mine, other, 1e-9, 1e-9)


@pytest.mark.parametrize(
    ("use", "placement"),
    [(use, place) for use in USES for place in PLACEMENTS if (use, place) != REFUSED],
)
def test_they_are_those_of_one_device(use, placement):
    model_fn, function = USES[use]
    check(run(model_fn, placement, function), run(model_fn, None, function))


def test_those_of_variables_with_replicas_are_refused():
    model_fn, function = USES[REFUSED[0]]
    with pytest.raises(ValueError, match=matching(TEXT)):
        run(model_fn, REFUSED[1], function)


def with_loss(loss):
    """Returns a model that trains by `loss(h)`, with h of shape [n, 5]."""

    def model_fn(features, labels, mode):
        w = tf.get_variable("w", [4, 5], tf.float64, tf.ones_initializer(), use_resource=True)
        made = loss(tf.tanh(features["x"] @ w * [0.1, 0.2, 0.3, 0.4, 0.5])) + tf.reduce_sum(w**2)
        train_op = tf.train.GradientDescentOptimizer(0.01).minimize(
            made, tf.train.get_global_step()
        )
        return tf.estimator.EstimatorSpec(mode, loss=made, train_op=train_op)

    return model_fn


def in_rounds(function):
    return lambda h: tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, function(h)), [0, h])[1]


LOOPS = {
    "in towers": lambda h: tf.reduce_mean(in_rounds(lambda h: tf.tanh(h * 1.5))(h) ** 2),
    "once": lambda h: tf.reduce_mean(in_rounds(lambda h: tf.cumsum(tf.cumprod(h)) + h)(h) ** 2),
}
BRANCHES = {
    "of rows": lambda h: tf.cond(tf.reduce_sum(h) > 0.1, lambda: h**2, lambda: tf.exp(h)),
    "nested": lambda h: tf.cond(
        tf.reduce_sum(h) > 0.1,
        lambda: tf.cond(tf.reduce_max(h) > 9, lambda: h, lambda: tf.sin(h)),
        lambda: h,
    ),
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("branches", BRANCHES)
def test_those_through_branches_are_those_of_one_device(branches, version):
    with control_flow(version):
        model_fn = with_loss(lambda h: tf.reduce_mean(BRANCHES[branches](h)))
        check(*(run(model_fn, place, of_variables) for place in ("consolidation", None)))


def test_those_through_a_loop_that_runs_once_are_those_of_one_device():
    with control_flow(1):
        model_fn = with_loss(LOOPS["once"])
        check(*(run(model_fn, place, of_variables) for place in ("consolidation", None)))


@pytest.mark.parametrize(("loop", "version"), [("in towers", 1), ("in towers", 2), ("once", 2)])
def test_those_through_changed_loops_are_refused(loop, version):
    with control_flow(version), pytest.raises(ValueError, match=matching(TEXT_OF_LOOPS)):
        run(with_loss(LOOPS[loop]), "consolidation", of_variables)
