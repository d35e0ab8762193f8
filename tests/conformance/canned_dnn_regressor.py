"""A canned `DNNRegressor` (v1) with batch norm, two targets and a metric added from outside.

Canned batch norm is fused where it can be; of vectors it is not, so that shards with the same
statistics give the moving statistics of one device: a batch is four rows six times over, with
labels that differ. The loss is a mean over rows, as `loss_reduction` says.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def make_model_fn():
    column = tf.feature_column
    job = column.categorical_column_with_vocabulary_list("job", data.JOBS)
    regressor = estimator.DNNRegressor(
        hidden_units=[6, 5],
        feature_columns=[
            column.numeric_column("age", normalizer_fn=lambda x: (x - 48.0) / 15.0),
            column.numeric_column("hours", normalizer_fn=lambda x: (x - 32.0) / 15.0),
            column.embedding_column(job, 2),
        ],
        label_dimension=2,
        batch_norm=True,
        activation_fn=tf.nn.tanh,
        loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE,
        optimizer=lambda: replicate.TowerOptimizer(
            tf.train.ProximalAdagradOptimizer(0.1, l2_regularization_strength=0.01)
        ),
    )
    return with_metrics(regressor).model_fn


def with_metrics(regressor):
    """Adds a metric, as `tf.contrib.estimator.add_metrics` is for."""

    def metrics(labels, predictions):
        error = tf.reduce_sum(tf.abs(labels - predictions["predictions"]), axis=1)
        return {"largest_mean_error": tf.metrics.mean(error)}

    return estimator.add_metrics(regressor, metrics)


def rows(total):
    features, _ = data.census(total)
    features = {key: data.tiled(features[key]) for key in ("age", "hours", "job")}
    random = np.random.RandomState(6)
    return features, random.normal(size=(total, 2)).astype(np.float32)


# Batch norm hardly sees the biases below it. Their gradients cancel up to rounding errors, which
# one device has as well when the rows of its batches change places.
PROGRAM = program.Program(
    make_model_fn, rows, batches=program.TILED, tolerance=10 * program.FLOAT32
)
