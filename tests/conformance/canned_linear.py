"""A canned `LinearClassifier` (v1): crossed columns, a vocabulary and FTRL with its penalties.

Equal on uneven shards; `SUM` as for all canned estimators of TensorFlow 1. The rows have weights.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def make_model_fn():
    column = tf.feature_column
    age = column.bucketized_column(column.numeric_column("age"), [25.0, 35.0, 50.0, 65.0])
    job = column.categorical_column_with_vocabulary_list("job", data.JOBS)
    crossed = column.crossed_column([age, "job"], hash_bucket_size=50)
    town = column.categorical_column_with_hash_bucket("town", hash_bucket_size=30)
    classifier = estimator.LinearClassifier(
        feature_columns=[column.numeric_column("hours"), age, job, crossed, town],
        weight_column="weight",
        optimizer=lambda: replicate.TowerOptimizer(
            tf.train.FtrlOptimizer(
                0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.01
            )
        ),
    )
    return classifier.model_fn


def rows(total):
    features, labels = data.census(total)
    features["hours"] /= 60
    features["weight"] = np.random.RandomState(5).uniform(0.5, 2, [total, 1]).astype(np.float32)
    return features, labels


PROGRAM = program.Program(make_model_fn, rows, reduction=program.SUM)
