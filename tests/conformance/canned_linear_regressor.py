"""A canned `LinearRegressor` (v1) with a vocabulary list and a table of partitioned weights.

Equal on uneven shards. The partitioner is the Estimator's own kind, given as argument.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def make_model_fn():
    column = tf.feature_column
    job = column.categorical_column_with_vocabulary_list("job", data.JOBS, default_value=0)
    town = column.categorical_column_with_hash_bucket("town", hash_bucket_size=20)
    regressor = estimator.LinearRegressor(
        feature_columns=[
            column.numeric_column("age", normalizer_fn=lambda x: x / 50.0),
            job,
            column.weighted_categorical_column(town, "hours"),
        ],
        optimizer=lambda: replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.01)),
        partitioner=tf.fixed_size_partitioner(2),
        sparse_combiner="mean",
    )
    return regressor.model_fn


def rows(total):
    features, _ = data.census(total)
    features["hours"] /= 60
    labels = np.random.RandomState(6).normal(size=(total, 1)).astype(np.float32)
    return features, labels


PROGRAM = program.Program(make_model_fn, rows, reduction=program.SUM)
