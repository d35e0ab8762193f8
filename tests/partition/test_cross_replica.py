"""Replicas in a `model_fn` for TPU cores become towers, or a single one on one device."""

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import contract
import replicate
from bodies import matching

pytestmark = pytest.mark.usefixtures("resource_variables")

BATCHES = np.random.RandomState(5).normal(size=(3, 6, 4))


def dataset():
    return tf.data.Dataset.from_tensor_slices((BATCHES, BATCHES[:, :, :1] * 0.5))


def model_fn(features, labels, mode, params):
    """As for TPU cores: a `CrossShardOptimizer`, and a mean over cores in the middle."""
    w = tf.get_variable("w", [4, 1], tf.float64, tf.ones_initializer())
    out = tf.tanh(features @ w)
    cores = replicate.num_towers()
    mean = tf.tpu.cross_replica_sum(tf.reduce_mean(out, axis=0)) / cores
    loss = tf.reduce_mean(tf.square(out - mean - labels))
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    if params["sharded"]:
        optimizer = tf.tpu.CrossShardOptimizer(optimizer)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def by_hand(features, labels, mode, params):
    """The same on one device."""
    w = tf.get_variable("w", [4, 1], tf.float64, tf.ones_initializer())
    out = tf.tanh(features @ w)
    loss = tf.reduce_mean(tf.square(out - tf.reduce_mean(out, axis=0) - labels))
    train_op = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(fn, num_towers, is_sharded=True):
    params = dict(contract.make_params(), sharded=is_sharded)
    return contract.record(fn, dataset, params, num_towers)


GROUPS = "Towers meet all at once, but `tf.tpu.cross_replica_sum` was called with the groups …"


def test_groups_of_towers_are_an_error():
    def grouped(features, labels, mode):
        loss = tf.tpu.cross_replica_sum(tf.reduce_mean(features), [[0], [1]])
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.no_op())

    fn = contract.replicated(grouped, 2, per_tower=True)
    with pytest.raises(ValueError, match=matching(GROUPS + "[[0], [1]]…Leave `group_assignment`")):
        fn(tf.constant(BATCHES[0]), None, "train")


@pytest.mark.parametrize("num_towers", [2, 3])
@pytest.mark.parametrize("view", ["batch", "tower"])
def test_towers_train_as_cores_and_as_one_device_do(view, num_towers):
    replicated = contract.replicated(model_fn, num_towers, per_tower=view == "tower")
    got = trained(replicated, num_towers)
    contract.assert_same_run(got, trained(by_hand, 1), 1e-9)


def test_a_plain_optimizer_in_the_program_of_one_tower_is_an_error():
    train = functools.partial(trained, is_sharded=False)
    with pytest.raises(ValueError, match=r"trainable variables are updated by gradients of all"):
        train(contract.replicated(model_fn, 2, per_tower=True), 2)
