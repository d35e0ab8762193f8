"""Averages of the weights by an optimizer of Keras around another, as tensorflow-addons has it.

The wrapper is an optimizer itself: it has the slots, and has the other one update each variable.
Its optimizer also decays the weights. Equal on uneven shards.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator
from versions import legacy


class DecayingSGD(legacy.SGD):
    """As `tfa.optimizers.SGDW`: weights decay before they are updated."""

    def _resource_apply_dense(self, grad, var, apply_state=None):
        with tf.control_dependencies([grad]):  # After the model has read the weights.
            decay = var.assign_sub(0.01 * var.read_value(), read_value=False)
        with tf.control_dependencies([decay]):
            return super()._resource_apply_dense(grad, var, apply_state=apply_state)


class MovingAverage(legacy.Optimizer):
    """As `tfa.optimizers.MovingAverage`."""

    def __init__(self, optimizer, average_decay, name="MovingAverage"):
        super().__init__(name)
        self._optimizer = optimizer
        self._set_hyper("average_decay", average_decay)

    def _create_slots(self, var_list):
        self._optimizer._create_slots(var_list)
        for var in var_list:
            self.add_slot(var, "average")

    def _create_hypers(self):
        super()._create_hypers()
        self._optimizer._create_hypers()

    def _prepare_local(self, var_device, var_dtype, apply_state):
        super()._prepare_local(var_device, var_dtype, apply_state)
        self._optimizer._prepare_local(var_device, var_dtype, apply_state)

    def _resource_apply_dense(self, grad, var, apply_state=None):
        train_op = self._optimizer._resource_apply_dense(grad, var, apply_state=apply_state)
        with tf.control_dependencies([train_op]):
            average, decay = self.get_slot(var, "average"), self._get_hyper("average_decay")
            moved = average.assign(average * decay + var.read_value() * (1.0 - decay))
        return tf.group(train_op, moved)

    def get_config(self):
        raise NotImplementedError("nothing is saved as a configuration here")


def model_fn(features, labels, mode):
    net = tf.layers.dense(features["x"], 6, tf.nn.tanh)
    logits = tf.layers.dense(net, 3)
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"logits": logits})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == estimator.ModeKeys.EVAL:
        metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = replicate.TowerOptimizer(
        lambda: MovingAverage(DecayingSGD(0.1, momentum=0.9), average_decay=0.5)
    )
    optimizer.iterations = tf.train.get_or_create_global_step()
    train_op = tf.group(optimizer.get_updates(loss, tf.trainable_variables()))
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    x, labels = data.vectors(total)
    return {"x": x}, labels


PROGRAM = program.Program(program.as_model_fn(model_fn), rows)
