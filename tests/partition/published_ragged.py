"""Models of ragged rows as their authors publish them."""

import tensorflow.compat.v1 as tf

from partition import tables
from partition.layer_models import dense
from partition.model_inputs import F64, get_variable


def _ragged(features):
    return tf.RaggedTensor.from_tensor(features["words"], features["num_words"])


def ragged_means(features, labels, mode, params):
    """Words of each row are looked up and averaged, and once more as `to_tensor` pads them."""
    words = _ragged(features)
    table = get_variable("table", [9, 4])
    rows = tf.ragged.map_flat_values(tf.nn.embedding_lookup, table, words)
    mean, top = tf.reduce_mean(rows, axis=1), tf.reduce_max(rows, axis=1)
    padded = words.to_tensor(default_value=0)
    more = tf.reduce_sum(tf.gather(table, padded), 1)
    lengths = tf.cast(words.row_lengths(), F64)[:, None]
    h = dense(tf.concat([tf.reshape(mean, [-1, 4]), tf.reshape(top, [-1, 4]), more, lengths], 1))
    loss = None if labels is None else tf.reduce_mean((h - labels["y"]) ** 2)
    return tables.spec_of(mode, {"h": h, "padded": padded}, loss, params)


def ragged_features(features, labels, mode, params):
    """The same of ragged rows that the input function gives, whose values are a sum."""
    words = features["ragged"]
    table = get_variable("table", [12, 4])
    rows = words.with_flat_values(tf.nn.embedding_lookup(table, words.flat_values))
    total = tf.reduce_sum(rows, axis=1)
    h = dense(tf.reshape(total, [-1, 4]))
    sizes = tf.segment_sum(tf.ones_like(words.values, F64), words.value_rowids())
    loss = None
    if labels is not None:
        loss = tf.reduce_mean((h - labels["y"]) ** 2) + 0.01 * tf.reduce_mean(rows.flat_values**2)
    return tables.spec_of(mode, {"h": h, "sizes": sizes}, loss, params)


MODELS = {model.__name__: model for model in (ragged_means, ragged_features)}
