"""A canned `DNNClassifier` (v1): numbers, buckets, a vocabulary and hashed towns as embeddings.

`estimator.model_fn` is what is replicated. Canned estimators of TensorFlow 1 add up the losses of
the rows, so that `replicate_model_fn` is told `SUM`. Equal on uneven shards.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def feature_columns():
    column = tf.feature_column
    age = column.numeric_column("age", normalizer_fn=lambda x: (x - 40.0) / 20.0)
    hours = column.bucketized_column(column.numeric_column("hours"), [10.0, 25.0, 40.0])
    job = column.categorical_column_with_vocabulary_list("job", data.JOBS[:4], num_oov_buckets=1)
    town = column.categorical_column_with_hash_bucket("town", hash_bucket_size=16)
    return [
        age,
        hours,
        column.indicator_column(job),
        column.embedding_column(town, dimension=3),
    ]


def make_model_fn():
    classifier = estimator.DNNClassifier(
        hidden_units=[8, 6],
        feature_columns=feature_columns(),
        optimizer=lambda: replicate.TowerOptimizer(tf.train.AdagradOptimizer(0.05)),
        activation_fn=tf.nn.tanh,
    )
    return classifier.model_fn


PROGRAM = program.Program(make_model_fn, data.census, reduction=program.SUM)
