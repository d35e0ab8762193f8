"""Modules in the style of Sonnet 1: objects that enter a scope of their own, connected twice.

A module makes its submodules where it is called first, by `tf.make_template`, and knows its
variables. Those of one module are trained by an optimizer, the others by another. Equal on uneven
shards.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


class AbstractModule:
    def __init__(self, name):
        self._template = tf.make_template(name, self._build, create_scope_now_=True)

    def __call__(self, *args, **kwargs):
        return self._template(*args, **kwargs)

    @property
    def trainable_variables(self):
        scope = self._template.variable_scope.name
        return tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=scope + "/")


class Linear(AbstractModule):
    def __init__(self, output_size, regularizer=None, name="linear"):
        self._output_size = output_size
        self._regularizer = regularizer
        super().__init__(name)

    def _build(self, inputs):
        shape = [int(inputs.shape[1]), self._output_size]
        stddev = shape[0] ** -0.5
        initializer = tf.truncated_normal_initializer(stddev=stddev)
        w = tf.get_variable("w", shape, None, initializer, regularizer=self._regularizer)
        b = tf.get_variable("b", shape[1:], initializer=tf.zeros_initializer())
        return tf.matmul(inputs, w) + b


class MLP(AbstractModule):
    def __init__(self, output_sizes, name="mlp"):
        self._output_sizes = output_sizes
        super().__init__(name)

    def _build(self, inputs):
        layers = [
            Linear(size, lambda w: 0.01 * tf.nn.l2_loss(w), name=f"linear_{i}")
            for i, size in enumerate(self._output_sizes)
        ]
        for layer in layers:
            inputs = tf.nn.tanh(layer(inputs))
        return inputs


def model_fn(features, labels, mode):
    encoder, classify = MLP([6, 5], name="encoder"), Linear(3)
    # Both ways round, by the same weights.
    code = encoder(features["x"]) + 0.5 * encoder(tf.reverse(features["x"], axis=[1]))
    logits = classify(code)
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"logits": logits, "code": code})
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    loss += tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
    if mode == estimator.ModeKeys.EVAL:
        metrics = {"accuracy": tf.metrics.accuracy(labels, tf.argmax(logits, 1))}
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    step = tf.train.get_or_create_global_step()
    slow = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.05))
    fast = replicate.TowerOptimizer(tf.train.RMSPropOptimizer(0.01, epsilon=1e-3))
    train_op = tf.group(
        slow.minimize(loss, var_list=encoder.trainable_variables),
        fast.minimize(loss, step, var_list=classify.trainable_variables),
    )
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    x, labels = data.vectors(total)
    return {"x": x}, labels


PROGRAM = program.Program(program.as_model_fn(model_fn), rows)
