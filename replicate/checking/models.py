"""Small models to train on one device and over towers: convolutions, a table, a loop, attention.

Towers combine the gradients of each model differently. All are trained with plain gradient descent,
which neither shrinks nor enlarges an error of a gradient. Batches do not divide evenly. No gradient
is 0 up to rounding, like that of a bias before batch norm: its relative deviation would be 1. All
functions are smooth: at a ReLU's input near 0, rounding decides whether a gradient passes.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.bench import models as bench_models
from replicate.compat import estimator

DTYPES = ("float32", "float64")
ROWS = 23
"""Rows of a batch: a prime number, so that no number of towers divides it."""
_CLASSES = 5
_RATE = 0.1
_TIMES, _WORDS, _UNITS = 6, 40, 16


class Model(NamedTuple):
    """A model, and rows for it."""

    title: str
    """A short description of the layers."""
    rows: Callable[[int, Any], Any]
    """Function of a number of rows and a `np.random.RandomState`; returns an array of features,
    floating-point numbers or words."""
    layers: Callable[[Any, Any], Any]
    """Function of the tensor of features and the type of variables; returns the input of the last
    layer, [rows, units]."""
    options: Mapping[str, Any] | None = None
    """Arguments of `replicate_model_fn` that make towers equal one device."""
    dtypes: tuple[str, ...] = DTYPES
    """Types that the model can compute in."""


def _weights(name: str, shape: list[Any], dtype: Any, seed: int) -> Any:
    return tf.get_variable(name, shape, dtype, bench_models.seeded_initializer(seed))


def _dense(net: Any, units: int, seed: int, name: str, has_bias: bool = True) -> Any:
    with tf.variable_scope(name):
        net = tf.tensordot(net, _weights("kernel", [net.shape[-1], units], net.dtype, seed), 1)
        if has_bias:
            net += tf.get_variable("bias", [units], net.dtype, tf.zeros_initializer())
    return net


def _scale_and_offset(net: Any) -> tuple[Any, Any]:
    size = [net.shape[-1]]
    scale = tf.get_variable("scale", size, net.dtype, tf.ones_initializer())
    # If it started at 0, it would be a sum of small gradients, with a large relative rounding.
    return scale, tf.get_variable("offset", size, net.dtype, tf.constant_initializer(0.1))


def _normed(net: Any, axes: list[int]) -> Any:
    """Returns arrays with mean 0 and variance 1 over axes, times a scale, plus an offset."""
    scale, offset = _scale_and_offset(net)
    mean, variance = tf.nn.moments(net, axes, keepdims=True)
    return (net - mean) * tf.rsqrt(variance + 1e-3) * scale + offset


def _batch_norm(net: Any) -> Any:
    return _normed(net, [0, 1, 2])


def _fused_batch_norm(net: Any) -> Any:
    return tf.nn.fused_batch_norm(net, *_scale_and_offset(net))[0]


def _convolutions(norm: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def layers(net: Any, dtype: Any) -> Any:
        del dtype
        for index in range(2):
            with tf.variable_scope(f"layer_{index}"):
                kernel = _weights("kernel", [3, 3, net.shape[-1], 8], net.dtype, index)
                net = tf.nn.conv2d(net, kernel, strides=[1, 1, 1, 1], padding="SAME")
                net = tf.tanh(norm(net))
        return tf.reduce_mean(net, axis=[1, 2])

    return layers


def _embedded_words(words: Any, dtype: Any) -> Any:
    """Applies a dense layer to the sum of the words' vectors."""
    table = _weights("table", [_WORDS, _UNITS], dtype, 0)
    net = tf.reduce_sum(tf.nn.embedding_lookup(table, words), axis=1)
    return tf.tanh(_dense(net, _UNITS, 1, "hidden"))


def _lstm(net: Any, dtype: Any) -> Any:
    """Applies an LSTM in a loop over time, as `dynamic_rnn` does; returns the last output."""
    kernel = _weights("lstm", [net.shape[-1] + _UNITS, 4 * _UNITS], dtype, 2)
    inputs = tf.TensorArray(dtype, _TIMES).unstack(tf.transpose(net, [1, 0, 2]))
    zeros = tf.zeros([tf.shape(net)[0], _UNITS], dtype)

    def step(time: Any, state: Any, output: Any) -> Any:
        gates = tf.matmul(tf.concat([inputs.read(time), output], 1), kernel)
        candidate, keep, add, show = tf.split(gates, 4, axis=1)
        state = state * tf.sigmoid(keep + 1.0) + tf.tanh(candidate) * tf.sigmoid(add)
        return time + 1, state, tf.tanh(state) * tf.sigmoid(show)

    start_of_loop = (tf.constant(0), zeros, zeros)
    return tf.while_loop(lambda time, *_: time < _TIMES, step, start_of_loop)[2]


def _attention(net: Any, dtype: Any) -> Any:
    """Applies self-attention to all pairs of positions in a row, between layer norms."""
    del dtype
    with tf.variable_scope("before"):
        net = _normed(net, [-1])
    queries, values = (_dense(net, _UNITS, 0, "queries"), _dense(net, _UNITS, 1, "values"))
    # A bias of keys would add the same number to all inputs of a softmax: its gradient is 0.
    keys = _dense(net, _UNITS, 2, "keys", has_bias=False)
    pairs = tf.matmul(queries, keys, transpose_b=True) / _UNITS**0.5
    with tf.variable_scope("after"):
        net = _normed(net + tf.matmul(tf.nn.softmax(pairs), values), [-1])
    return tf.reduce_mean(tf.tanh(net), axis=1)


def _images(number: int, rng: Any) -> Any:
    return rng.normal(size=(number, 12, 12, 3))


def _sequences(number: int, rng: Any) -> Any:
    return rng.normal(size=(number, _TIMES, _UNITS))


def _sentences(number: int, rng: Any) -> Any:
    return rng.randint(_WORDS, size=(number, _TIMES)).astype(np.int32)


MODELS = {
    "cnn": Model("convolutions, batch norm by hand", _images, _convolutions(_batch_norm)),
    "fused": Model(
        "the same, the fused kernel with batch_norm='batch'",
        _images,
        _convolutions(_fused_batch_norm),
        {"batch_norm": "batch"},
        ("float32",),
    ),
    "embedding": Model("a table with a sparse gradient, dense layers", _sentences, _embedded_words),
    "lstm": Model("an LSTM in a loop over time", _sequences, _lstm),
    "attention": Model("attention of all pairs, layer norm", _sequences, _attention),
}


def make_model_fn(name: str, dtype: str) -> Callable[..., Any]:
    """Returns the plain `model_fn` of a model, given the names of the model and of its type."""
    model = MODELS[name]

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        logits = _dense(model.layers(features, tf.as_dtype(dtype)), _CLASSES, 3, "logits")
        predictions = {"probabilities": tf.nn.softmax(logits)}
        if mode == estimator.ModeKeys.PREDICT:
            return estimator.EstimatorSpec(mode, predictions=predictions)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        accuracy = tf.metrics.accuracy(labels, tf.argmax(logits, 1))
        optimizer = tf.train.GradientDescentOptimizer(_RATE)
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        metrics = {"accuracy": accuracy}
        return estimator.EstimatorSpec(mode, predictions, loss, train_op, metrics)

    return model_fn


def make_input_fn(name: str, dtype: str, steps: int) -> Callable[[], Any]:
    """Returns an `input_fn` with a batch for each step; the last batch has one row fewer."""
    rng = np.random.RandomState(bench_models.SEED)
    number = steps * ROWS - 1
    features = MODELS[name].rows(number, rng)
    if features.dtype.kind == "f":
        features = features.astype(dtype)
    labels = rng.randint(_CLASSES, size=number).astype(np.int32)

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensor_slices((features, labels)).batch(ROWS)

    return input_fn
