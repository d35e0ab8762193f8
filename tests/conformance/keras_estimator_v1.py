"""`model_to_estimator` of a Keras model that is compiled with an optimizer of `tf.train`."""

import tensorflow.compat.v1 as tf

from conformance import keras_estimator, table


def make_model_fn():
    return keras_estimator.make_model_fn(tf.train.AdamOptimizer(0.01))


ROW = table.Row(make_model_fn, keras_estimator.rows)
