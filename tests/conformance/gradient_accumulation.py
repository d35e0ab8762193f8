"""Gradients accumulated over two batches before a step, by an optimizer around another.

Equal on uneven shards, in float64: inside `TowerOptimizer`, it accumulates the reduced
gradient.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import program
from replicate import estimator


class AccumulatingOptimizer(tf.train.Optimizer):
    """Applies the mean of so many batches' gradients at every so many-th step."""

    def __init__(self, optimizer, batches):
        super().__init__(False, "Accumulating")
        self._optimizer = optimizer
        self._batches = batches

    def compute_gradients(self, *args, **kwargs):
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        grads, variables = zip(*[(g, v) for g, v in grads_and_vars if g is not None])
        sums = [self._zeros_slot(v, "sum", self._name) for v in variables]
        added = [s.assign_add(g) for s, g in zip(sums, grads)]
        with tf.control_dependencies(added):
            is_last = tf.equal((global_step + 1) % self._batches, 0)

        def apply():
            means = [s.read_value() / self._batches for s in sums]
            applied = self._optimizer.apply_gradients(zip(means, variables))
            with tf.control_dependencies([applied]):
                return tf.group(*[s.assign(tf.zeros_like(s)) for s in sums])

        # Slots are made before the branch, which may not make variables.
        self._optimizer._create_slots(variables)
        applied = tf.cond(is_last, apply, tf.no_op)
        with tf.control_dependencies([applied]):
            return global_step.assign_add(1, name=name).op


def model_fn(features, labels, mode, params):
    with tf.variable_scope("net", dtype=tf.float64):
        hidden = tf.tanh(features @ tf.get_variable("kernel", [4, 5]))
        output = hidden @ tf.get_variable("output", [5, 1])
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"output": output})
    loss = tf.reduce_mean(tf.squared_difference(output, labels))
    optimizer = replicate.TowerOptimizer(
        AccumulatingOptimizer(tf.train.MomentumOptimizer(0.1, 0.9), batches=2)
    )
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    metrics = {"mse": tf.metrics.mean_squared_error(labels, output)}
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def rows(total):
    x = np.random.RandomState(16).normal(size=(total, 4))
    return x, np.sin(x.sum(axis=1, keepdims=True))


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, tolerance=program.FLOAT64)
