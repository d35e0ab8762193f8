"""Averages of the weights by a wrapper, saved in the weights' place by a swapping saver.

After `tf.contrib.opt.MovingAverageOptimizer`: evaluation and prediction then use the averages.
Equal on uneven shards, in float64.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import program
from replicate import estimator


class MovingAverageOptimizer(tf.train.Optimizer):
    """Keeps averages of the variables that another optimizer trains."""

    def __init__(self, optimizer, average_decay=0.9, num_updates=None):
        super().__init__(False, "MovingAverageOptimizer")
        self._optimizer = optimizer
        self._ema = tf.train.ExponentialMovingAverage(average_decay, num_updates=num_updates)
        self._swapped = None

    def compute_gradients(self, *args, **kwargs):
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        variables = [variable for gradient, variable in grads_and_vars if gradient is not None]
        train_op = self._optimizer.apply_gradients(grads_and_vars, global_step=global_step)
        with tf.control_dependencies([train_op]):
            average_op = self._ema.apply(variables)
        self._swapped = {v.op.name: self._ema.average(v) for v in variables}
        self._swapped.update({self._ema.average_name(v): v for v in variables})
        return tf.group(train_op, average_op, name=name or "train_with_avg")

    def swapping_saver(self, **kwargs):
        """Returns a saver that swaps variables and their averages in checkpoints."""
        if self._swapped is None:
            raise RuntimeError("Call apply_gradients first.")
        return tf.train.Saver(
            {**{v.op.name: v for v in tf.global_variables()}, **self._swapped}, **kwargs
        )


def model_fn(features, labels, mode, params):
    with tf.variable_scope("net", dtype=tf.float64):
        kernel = tf.get_variable("kernel", [4, 5])
        output = tf.tanh(features @ kernel) @ tf.get_variable("output", [5, 1])
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"output": output})
    loss = tf.reduce_mean(tf.squared_difference(output, labels))
    if mode == estimator.ModeKeys.EVAL:
        metrics = {"correlation": tf.metrics.mean_cosine_distance(labels, output, dim=1)}
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    step = tf.train.get_or_create_global_step()
    optimizer = replicate.TowerOptimizer(
        MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.2), num_updates=step)
    )
    train_op = optimizer.minimize(loss, step)
    scaffold = tf.train.Scaffold(saver=optimizer.swapping_saver(max_to_keep=3))
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold)


def rows(total):
    x = np.random.RandomState(13).normal(size=(total, 4))
    return x, np.sin(x.sum(axis=1, keepdims=True))


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, tolerance=program.FLOAT64)
