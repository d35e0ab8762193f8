"""Networks as they are trained in earnest, of small width: what users wait for, on two cores.

Adds to `models.MODELS` the networks that `benchmarks.real_models` measures in addition to its
ResNet-50. Each has the layers and operations of the network after which it is named; weights start
from their own seeds.
"""

import functools
import itertools

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.bench import models

# Expansion, channels, blocks and first stride of MobileNetV2's stages (Sandler et al., 2018,
# https://arxiv.org/abs/1801.04381, table 2).
_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_TOKENS = 32  # In a row of text.
_HEADS = 4
_COLUMNS = 8  # Of categories, of which a row has up to `_CATEGORIES` in each.
_CATEGORIES = 3
_NUMBERS = 13


def _normed(net, i, **kwargs):
    return tf.layers.batch_normalization(net, training=True, name=f"norm_{i}", **kwargs)


def _depthwise(net, stride, i):
    shape = [3, 3, net.shape.as_list()[-1], 1]
    initializer = models.seeded_initializer(i)
    kernel = tf.get_variable(f"depthwise_{i}", shape, initializer=initializer)
    return tf.nn.depthwise_conv2d(net, kernel, [1, stride, stride, 1], "SAME")


def _mobilenet_v2(net, case):
    """MobileNetV2 up to the mean of each channel; `case.width` is that of its last layer."""
    numbers = itertools.count()
    net = tf.nn.relu6(_normed(models.convolved(net, 32, 3, 2, next(numbers)), next(numbers)))
    for expansion, channels, blocks, first_stride in _STAGES:
        for block in range(blocks):
            stride, before = first_stride if block == 0 else 1, net
            if expansion > 1:
                wide = expansion * net.shape.as_list()[-1]
                net = models.convolved(net, wide, 1, 1, next(numbers))
                net = tf.nn.relu6(_normed(net, next(numbers)))
            net = tf.nn.relu6(_normed(_depthwise(net, stride, next(numbers)), next(numbers)))
            net = models.convolved(net, channels, 1, 1, next(numbers))
            is_residual = stride == 1 and before.shape.as_list()[-1] == channels
            # As in `models`: with 1, engines' rounding grows.
            gamma = tf.constant_initializer(0.0 if is_residual else 1.0)
            net = _normed(net, next(numbers), gamma_initializer=gamma)
            net = before + net if is_residual else net
    net = models.convolved(net, case.width, 1, 1, next(numbers))
    return tf.reduce_mean(tf.nn.relu6(_normed(net, next(numbers))), [1, 2])


def _text(case, number, rng):
    """Rows of tokens, of which each follows from the one before, and those that come next."""
    first = rng.randint(0, case.classes, [number, 1])
    tokens = (first + 7 * np.arange(_TOKENS + 1)) % case.classes
    return tokens[:, :-1].astype(np.int32), tokens[:, 1:].astype(np.int32)


def _dense(net, units, i, **kwargs):
    initializer = models.seeded_initializer(i)
    return tf.layers.dense(net, units, kernel_initializer=initializer, name=f"dense_{i}", **kwargs)


def _layer_norm(net, i):
    width = net.shape.as_list()[-1]
    scale = tf.get_variable(f"scale_{i}", [width], initializer=tf.ones_initializer())
    offset = tf.get_variable(f"offset_{i}", [width], initializer=tf.zeros_initializer())
    mean, variance = tf.nn.moments(net, [-1], keepdims=True)
    return (net - mean) * tf.math.rsqrt(variance + 1e-6) * scale + offset


def _split_heads(net):
    rows, tokens, width = net.shape.as_list()
    rows = tf.shape(net)[0] if rows is None else rows
    return tf.transpose(tf.reshape(net, [rows, tokens, _HEADS, width // _HEADS]), [0, 2, 1, 3])


def _attention(net, numbers):
    width = net.shape.as_list()[-1]
    query, key, value = (_split_heads(_dense(net, width, next(numbers))) for _ in range(3))
    scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(width / _HEADS)
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    return _dense(tf.reshape(mixed, tf.shape(net)), width, next(numbers))


def _gelu(net):
    return 0.5 * net * (1.0 + tf.math.erf(net / np.sqrt(2.0)))


def _encoder(features, labels, case, dropout=0.0):
    """The encoder of BERT-base, of `case.width`, which predicts a token at each place.

    Devlin et al., 2018, https://arxiv.org/abs/1810.04805; by default without dropout, which would
    draw other numbers on each engine.
    """

    def dropped(net):
        return tf.nn.dropout(net, rate=dropout, seed=next(numbers)) if dropout else net

    numbers = itertools.count()
    table = tf.get_variable(
        "tokens", [case.classes, case.width], initializer=models.seeded_initializer(next(numbers))
    )
    places = tf.get_variable(
        "places", [_TOKENS, case.width], initializer=models.seeded_initializer(next(numbers))
    )
    net = _layer_norm(tf.nn.embedding_lookup(table, features) + places, next(numbers))
    for _ in range(case.layers):
        net = _layer_norm(net + dropped(_attention(net, numbers)), next(numbers))
        inner = _dense(net, 4 * case.width, next(numbers), activation=_gelu)
        inner = _dense(inner, case.width, next(numbers))
        net = _layer_norm(net + dropped(inner), next(numbers))
    logits = tf.tensordot(net, table, [[2], [1]])
    return tf.losses.sparse_softmax_cross_entropy(labels, logits)


def _language_model(features, labels, case):
    """An LSTM of `case.layers` layers over an embedding of `case.classes` words."""
    table = tf.get_variable(
        "words", [case.classes, case.width], initializer=models.seeded_initializer(0)
    )
    net = tf.nn.embedding_lookup(table, features)
    for i in range(case.layers):
        cell = tf.nn.rnn_cell.LSTMCell(
            case.width, initializer=models.seeded_initializer(i + 1), name=f"lstm_{i}"
        )
        with tf.variable_scope(f"layer_{i}"):
            net, _ = tf.nn.dynamic_rnn(cell, net, dtype=tf.float32)
    logits = _dense(net, case.classes, case.layers + 1)
    return tf.losses.sparse_softmax_cross_entropy(labels, logits)


def _click_rows(case, number, rng):
    """Rows of numbers and of categories, some of them missing, and whether they are clicked."""
    numbers = rng.standard_normal([number, _NUMBERS]).astype(np.float32)
    features = {"numbers": numbers}
    for i in range(_COLUMNS):
        ids = rng.randint(0, case.classes, [number, _CATEGORIES]).astype(np.int64)
        missing = rng.uniform(size=ids.shape) < 0.3
        features[f"category_{i}"] = np.where(missing, -1, ids)
    return features, (numbers.sum(axis=1, keepdims=True) > 0).astype(np.float32)


def _wide_and_deep(features, labels, case):
    """A linear model of sparse columns beside a network of their embeddings.

    Cheng et al., 2016, https://arxiv.org/abs/1606.07792.
    """
    columns = tf.feature_column
    sparse = [
        columns.categorical_column_with_identity(f"category_{i}", case.classes)
        for i in range(_COLUMNS)
    ]
    embedded = [
        columns.embedding_column(
            column, case.width // 4, initializer=models.seeded_initializer(100 + i)
        )
        for i, column in enumerate(sparse)
    ]
    wide = columns.linear_model(features, sparse)
    numeric = columns.numeric_column("numbers", [_NUMBERS])
    net = columns.input_layer(features, [*embedded, numeric])
    for i in range(case.layers):
        net = _dense(net, case.width, i, activation=tf.nn.relu)
    return tf.losses.sigmoid_cross_entropy(labels, wide + _dense(net, 1, case.layers))


models.MODELS.update(
    bert=models.Model(_text, _encoder),
    bert_dropout=models.Model(_text, functools.partial(_encoder, dropout=0.1)),
    lstm=models.Model(_text, _language_model),
    mobilenet_v2=models.classifier((64, 64, 3), _mobilenet_v2),
    wide_and_deep=models.Model(_click_rows, _wide_and_deep),
)
_BERT = models.Case(
    "bert", towers=1, layers=12, width=128, global_batch=16, classes=2000, optimizer="Momentum"
)
CASES = {
    "resnet50": models.CASES["resnet50"],
    "bert": _BERT,
    "bert_dropout": _BERT._replace(model="bert_dropout"),
    "mobilenet_v2": models.Case(
        "mobilenet_v2",
        towers=1,
        layers=52,
        width=1280,
        global_batch=16,
        classes=1000,
        optimizer="SGD",  # With momentum, engines' rounding grows to 1e-2 within five steps.
    ),
    "lstm": models.Case("lstm", towers=1, layers=2, width=128, global_batch=16, classes=10000),
    "wide_and_deep": models.Case(
        "wide_and_deep", towers=1, layers=3, width=128, global_batch=256, classes=10000
    ),
}
