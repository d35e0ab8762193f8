"""A canned `DNNLinearCombinedClassifier` (v1), one line changed: the optimizers that are default.

Nobody wraps them, nor says that the loss is a sum over rows. Equal on uneven shards.
"""

import tensorflow.compat.v1 as tf

from conformance import canned_wide_deep, data, program
from replicate import estimator


def make_model_fn():
    column = tf.feature_column
    job = column.categorical_column_with_vocabulary_list("job", data.JOBS)
    classifier = estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=[job, column.categorical_column_with_hash_bucket("town", 12)],
        dnn_feature_columns=[column.numeric_column("hours"), column.embedding_column(job, 2)],
        dnn_hidden_units=[8],
        dnn_activation_fn=tf.nn.tanh,
        n_classes=3,
    )
    return classifier.model_fn


def rows(total):
    features, labels = canned_wide_deep.rows(total)
    features["hours"] /= 60
    return features, labels


PROGRAM = program.Program(make_model_fn, rows)
