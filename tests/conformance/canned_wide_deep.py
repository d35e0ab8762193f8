"""A canned `DNNLinearCombinedClassifier` (v1): wide and deep, an optimizer for each.

Equal on uneven shards; `SUM` as for all canned estimators of TensorFlow 1. Three classes, so that
the loss is the softmax one. The embedding is shared by two columns.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def make_model_fn():
    column = tf.feature_column
    hours = column.numeric_column("hours", normalizer_fn=lambda x: x / 40.0)
    age = column.bucketized_column(column.numeric_column("age"), [30.0, 45.0, 60.0])
    job = column.categorical_column_with_vocabulary_list("job", data.JOBS)
    born = column.categorical_column_with_hash_bucket("born", 12)
    town = column.categorical_column_with_hash_bucket("town", 12)
    wide = [age, column.crossed_column(["job", "town"], 40)]
    deep = [
        hours,
        column.indicator_column(job),
        *tf.feature_column.shared_embedding_columns([born, town], dimension=2),
    ]
    classifier = estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide,
        linear_optimizer=lambda: replicate.TowerOptimizer(tf.train.FtrlOptimizer(0.1)),
        dnn_feature_columns=deep,
        dnn_optimizer=lambda: replicate.TowerOptimizer(tf.train.AdagradOptimizer(0.05)),
        dnn_hidden_units=[8],
        dnn_activation_fn=tf.nn.tanh,
        n_classes=3,
    )
    return classifier.model_fn


def rows(total):
    features, _ = data.census(total)
    random = np.random.RandomState(6)
    features["born"] = random.permutation(features["town"])
    return features, random.randint(0, 3, size=(total, 1)).astype(np.int64)


PROGRAM = program.Program(make_model_fn, rows, reduction=program.SUM)
