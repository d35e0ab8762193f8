"""`model_to_estimator` of a Keras model that is compiled with an optimizer of `tf.train`."""

import tensorflow.compat.v1 as tf

from conformance import keras_estimator, program


def make_model_fn():
    return keras_estimator.make_model_fn(tf.train.AdamOptimizer(0.01))


PROGRAM = program.Program(make_model_fn, keras_estimator.rows)
