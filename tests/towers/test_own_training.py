"""Models that train without gradients are refused by what they are, with the way out."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import DEVICES, matching
from conformance import version_2
from replicate import estimator

X = np.random.RandomState(0).normal(size=(8, 2)).astype(np.float32)
REFUSED = (
    "Towers train by the gradients of all of them, but this model trains by …{}…, which makes "
    "none (…{}…test_own_training.py…Pass the Estimator the plain `model_fn`, without "
    "`replicate_model_fn`, to train it on one device{}"
)
FTRL = ", or give the model an optimizer that goes by gradients, such as FTRL."


def _k_means(**kwargs):
    return lambda: estimator.experimental.KMeans(2, **kwargs).model_fn


def _sdca():
    v2 = version_2.api()
    column = tf.feature_column.numeric_column("x", shape=2)
    optimizer = v2.experimental.LinearSDCA("id")
    return v2.LinearClassifier([column], optimizer=optimizer).model_fn


def _boosted_trees():
    """As `BoostedTreesClassifier` had it, which TensorFlow 2.15 has no more."""

    def model_fn(features, labels, mode):
        trees = tf.raw_ops.BoostedTreesEnsembleResourceHandleOp(container="", shared_name="trees")
        mean = tf.reduce_mean(features["x"], axis=0, keepdims=True)
        centered = tf.raw_ops.BoostedTreesCenterBias(
            tree_ensemble_handle=trees,
            mean_gradients=mean,
            mean_hessians=mean,
            l1=tf.constant(0.0),
            l2=tf.constant(0.0),
        )
        return estimator.EstimatorSpec(mode, loss=tf.reduce_mean(mean), train_op=centered.op)

    return model_fn


@pytest.mark.parametrize(
    ("make_model_fn", "name", "op", "instead"),
    [
        (_k_means(use_mini_batch=False), "k-means clustering", "", "."),
        (_k_means(), "k-means clustering", "", "."),
        (_k_means(initial_clusters="random"), "k-means clustering", "NearestNeighbors", "."),
        (_sdca, "stochastic dual coordinate ascent (SDCA)", "SdcaOptimizer", FTRL),
        (_boosted_trees, "boosted trees", "BoostedTreesCenterBias", "."),
    ],
)
def test_by_name(make_model_fn, name, op, instead):
    features = {"x": tf.constant(X)}
    labels = None
    if make_model_fn is _sdca:
        features["id"] = tf.constant([b"%d" % number for number in range(8)])
        labels = tf.constant(np.arange(8)[:, None] % 2)
    tf.train.create_global_step()
    replicated = replicate.replicate_model_fn(make_model_fn(), devices=DEVICES[:2])
    config = estimator.RunConfig(session_config=replicate.session_config(DEVICES[:2]))
    with pytest.raises(ValueError, match=matching(REFUSED.format(name, op, instead))):
        replicated(features, labels, "train", config=config)
