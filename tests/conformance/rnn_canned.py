"""`tf.estimator.experimental.RNNClassifier`, one line changed: a GRU over embedded words.

Every sentence has the same length, since shards are as wide as their own longest row.
"""

import tensorflow.compat.v1 as tf

from conformance import data, program, version_2
from versions import legacy


def make_model_fn():
    words = tf.feature_column.sequence_categorical_column_with_identity("words", 20)
    classifier = version_2.api().experimental.RNNClassifier(
        sequence_feature_columns=[tf.feature_column.embedding_column(words, 3)],
        units=[4],
        cell_type="gru",
        optimizer=lambda: legacy.Adagrad(0.05),
    )
    return classifier.model_fn


def rows(total):
    words, _, label = data.sentences(total)
    return {"words": words % 19 + 1}, label[:, None]


def as_sparse(features, labels):
    return {"words": tf.sparse.from_dense(features["words"])}, labels


PROGRAM = program.Program(make_model_fn, rows, parse=as_sparse)
