"""Trains a model of the contract with an Estimator, in replicas of a strategy or on one device."""

import tensorflow.compat.v1 as tf

import contract
import replicate
from contract import MEAN
from engines import harness


def train(model_fn, strategy, optimizer="momentum", reduction=MEAN, batches=contract.EVEN):
    """Trains with an Estimator, on one device without this library if `strategy` is None."""
    losses = []

    class Losses(tf.train.SessionRunHook):
        def begin(self):
            self.loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

        def before_run(self, run_context):
            return tf.train.SessionRunArgs(self.loss)

        def after_run(self, run_context, run_values):
            losses.append(run_values.results)

    wrap = contract.plain if strategy is None else replicate.TowerOptimizer
    config = tf.estimator.RunConfig(
        tf_random_seed=contract.SEED,
        train_distribute=strategy,
        session_config=replicate.session_config(harness.devices(2)),
    )
    size = batches.size // (1 if strategy is None else strategy.num_replicas_in_sync)
    params = contract.make_params(optimizer, reduction, wrap)
    estimator = tf.estimator.Estimator(model_fn, config=config, params=params)
    estimator.train(lambda: contract.dataset(batches._replace(size=size)), hooks=[Losses()])
    names = estimator.get_variable_names()
    return losses, {name: estimator.get_variable_value(name) for name in names}
