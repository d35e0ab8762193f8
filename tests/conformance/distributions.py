"""Distributions, as tensorflow-probability has them: densities of rows, a divergence of weights.

Each row has a mixture of two normal distributions, of which scales are learned, too; the loss is
minus the log of its density, and, once, how far the weights' own distribution is from the standard
one, divided by the number of all examples, as of a Bayesian layer. Equal on uneven shards.
"""

import math

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator

EXAMPLES = 33.0


class Normal:
    def __init__(self, loc, scale):
        self.loc, self.scale = loc, scale

    def log_prob(self, x):
        z = (x - self.loc) / self.scale
        return -0.5 * z**2 - tf.log(self.scale) - 0.5 * math.log(2 * math.pi)

    def kl_divergence(self, other):
        variances = (self.scale / other.scale) ** 2
        between = ((self.loc - other.loc) / other.scale) ** 2
        return 0.5 * (variances + between - 1.0 - tf.log(variances))


class Mixture:
    def __init__(self, logits, components):
        self.logits, self.components = logits, components

    def log_prob(self, x):
        each = self.components.log_prob(x[..., None])
        return tf.reduce_logsumexp(tf.nn.log_softmax(self.logits) + each, axis=-1)

    def mean(self):
        return tf.reduce_sum(tf.nn.softmax(self.logits) * self.components.loc, axis=-1)


def variational(x, units):
    """A layer whose weights have a distribution, of which the mean is taken, without noise."""
    with tf.variable_scope("variational"):
        loc = tf.get_variable("loc", [x.shape[-1], units])
        rho = tf.get_variable("rho", loc.shape, initializer=tf.constant_initializer(-2.0))
    posterior = Normal(loc, tf.nn.softplus(rho))
    prior = Normal(tf.zeros_like(loc), tf.ones_like(loc))
    tf.losses.add_loss(
        tf.reduce_sum(posterior.kl_divergence(prior)) / EXAMPLES,
        tf.GraphKeys.REGULARIZATION_LOSSES,
    )
    return x @ posterior.loc


def model_fn(features, labels, mode):
    hidden = tf.nn.tanh(variational(features["x"], 6))
    logits, loc, scale = tf.split(tf.layers.dense(hidden, 6), 3, axis=-1)
    mixture = Mixture(logits, Normal(loc, 0.1 + tf.nn.softplus(scale)))
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"mean": mixture.mean()})
    loss = -tf.reduce_mean(mixture.log_prob(labels)) + tf.losses.get_regularization_loss()
    if mode == estimator.ModeKeys.EVAL:
        error = tf.metrics.root_mean_squared_error(labels, mixture.mean())
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"error": error})
    optimizer = replicate.TowerOptimizer(tf.train.AdagradOptimizer(0.1))
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    x, _ = data.vectors(total)
    return {"x": x}, np.sin(x.sum(axis=1)).astype(np.float32)


PROGRAM = program.Program(program.as_model_fn(model_fn), rows)
