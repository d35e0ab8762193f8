"""Models that train without gradients: as on one device, if they are built of the batch."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
import versions
from bodies import DEVICES, matching
from conformance import version_2
from replicate import estimator

# On TensorFlow 1.15, what reads clusters races with what moves them, on one device too.
WITHIN = 0.5 if versions.IS_1 else 1e-6
X = np.random.RandomState(0).normal(size=(8, 2)).astype(np.float32)
IN_A_CONDITION = "With `per_tower=True`…updates"  # Conditions are other ones on TensorFlow 1.15.
BY_GRADIENTS = (
    "With `per_tower=True`, trainable variables are updated by gradients of all towers, but…"
    "updates linear/linear_model/x/weights"
)


def _k_means(**kwargs):
    return lambda: estimator.experimental.KMeans(2, seed=5, **kwargs).model_fn


def _sdca():
    v2 = version_2.api()
    column = tf.feature_column.numeric_column("x", shape=2)
    optimizer = v2.experimental.LinearSDCA("id")
    return v2.LinearClassifier([column], optimizer=optimizer).model_fn


def _given(make_model_fn):
    """Returns features and labels, in a graph with a global step."""
    tf.set_random_seed(3)
    tf.train.create_global_step()
    if make_model_fn is not _sdca:
        return {"x": tf.constant(X)}, None
    ids = tf.constant([b"%d" % number for number in range(8)])
    return {"x": tf.constant(X), "id": ids}, tf.constant(np.arange(8)[:, None] % 2)


def _losses(make_model_fn, num_towers):
    """Returns the losses of three steps."""
    config = estimator.RunConfig(session_config=replicate.session_config(DEVICES[:2]))
    with tf.Graph().as_default():
        features, labels = _given(make_model_fn)
        model_fn = replicate.replicate_model_fn(make_model_fn(), devices=DEVICES[:num_towers])
        spec = model_fn(features, labels, "train", config=config)
        creator = tf.train.ChiefSessionCreator(spec.scaffold, config=config.session_config)
        hooks = [*spec.training_hooks, *spec.training_chief_hooks]
        with tf.train.MonitoredSession(creator, hooks) as session:
            return [session.run([spec.loss, spec.train_op])[0] for _ in range(3)]


@pytest.mark.parametrize(
    ("make_model_fn", "rtol"),
    [
        (_k_means(use_mini_batch=False), WITHIN),
        # Their updates race with what reads the variables, on one device too.
        (_k_means(initial_clusters=X[:2]), 0.5),
        (_sdca, 0.5),
    ],
)
def test_as_on_one_device(make_model_fn, rtol, warnings):
    want = _losses(make_model_fn, 1)
    np.testing.assert_allclose(_losses(make_model_fn, 2), want, rtol)
    assert warnings() == []


@pytest.mark.parametrize(
    ("make_model_fn", "phrases"), [(_k_means(), IN_A_CONDITION), (_sdca, BY_GRADIENTS)]
)
def test_programs_of_towers_are_refused(make_model_fn, phrases):
    features, labels = _given(make_model_fn)
    replicated = replicate.replicate_model_fn(make_model_fn(), devices=DEVICES[:2], per_tower=True)
    config = estimator.RunConfig(session_config=replicate.session_config(DEVICES[:2]))
    with pytest.raises(ValueError, match=matching(phrases)):
        replicated(features, labels, "train", config=config)
