"""A model that calls a `tf.function`, branches by `tf.cond` and has a `tf.py_function` inside.

Equal on uneven shards, in float64: the condition is about the step, and Python computes each row by
itself.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import program
from replicate import estimator


@tf.function
def polynomial(x, coefficients):
    """Σ cᵢ·xⁱ, with a loop that AutoGraph makes a `tf.while_loop`."""
    total = tf.zeros_like(x)
    for index in tf.range(3):
        total += coefficients[index] * x ** tf.cast(index, x.dtype)
    return total


def lengths(texts):
    """Plain Python on rows, as in a tokenizer."""
    return np.array([[len(text.decode()) / 10] for text in texts.numpy()[:, 0]])


def sine(x):
    """With a gradient of its own, in Python."""

    @tf.custom_gradient
    def fn(x):
        def grad(dy):
            cosine = tf.py_function(lambda value: tf.cos(value), [x], x.dtype)
            return dy * tf.ensure_shape(cosine, x.shape)

        return tf.sin(x), grad

    return fn(x)


def model_fn(features, labels, mode, params):
    x = features["x"]
    length = tf.py_function(lengths, [features["text"]], tf.float64)
    length = tf.ensure_shape(length, [None, 1])
    coefficients = tf.get_variable("coefficients", [3], tf.float64, tf.ones_initializer())
    kernel = tf.get_variable("kernel", [4, 1], tf.float64)
    bias = tf.get_variable("bias", [1], tf.float64, tf.zeros_initializer())
    hidden = sine(polynomial(x @ kernel + bias, coefficients))

    # A curriculum: the text comes in after the second step.
    late = tf.greater(tf.train.get_or_create_global_step(), 1)
    scale = tf.get_variable("scale", [], tf.float64, tf.ones_initializer())
    output = tf.cond(late, lambda: hidden + scale * length, lambda: hidden)
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"output": output, "length": length})

    loss = tf.reduce_mean(tf.squared_difference(output, labels))
    if mode == estimator.ModeKeys.EVAL:
        metrics = {
            "mae": tf.metrics.mean_absolute_error(labels, output),
            "close": tf.metrics.percentage_below(tf.abs(labels - output), 0.5),
        }
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    rate = tf.cond(late, lambda: 0.05, lambda: 0.1)
    optimizer = replicate.TowerOptimizer(lambda: tf.train.GradientDescentOptimizer(rate))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    random = np.random.RandomState(10)
    x = random.normal(size=(total, 4))
    text = np.array([b"x" * n for n in random.randint(1, 20, size=total)])[:, None]
    return {"x": x, "text": text}, np.cos(x.sum(axis=1, keepdims=True))


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, tolerance=program.FLOAT64)
