"""`tf.keras.estimator.model_to_estimator`, one line changed: a loss of one's own.

The Keras model is compiled with an optimizer of `tf.keras.optimizers.legacy`, a loss that is a
function, a metric by its name and one as an object. Equal on uneven shards.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from conformance import data, program
from versions import legacy


def make_model(optimizer):
    inputs = tf.keras.Input([5], name="x")
    hidden = tf.keras.layers.Dense(6, "tanh", kernel_regularizer="l2")(inputs)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(3, "softmax", name="class")(hidden))
    model.compile(
        optimizer,
        loss=smooth,
        metrics=["accuracy", tf.keras.metrics.TopKCategoricalAccuracy(2, name="top_2")],
    )
    return model


def make_model_fn(optimizer=None):
    model = make_model(optimizer or legacy.Adagrad(0.05))
    return tf.keras.estimator.model_to_estimator(model).model_fn


def smooth(labels, predictions):
    return tf.reduce_sum(tf.square(labels - predictions), axis=-1)


def rows(total):
    x, label = data.vectors(total)
    return {"x": x}, np.eye(3, dtype=np.float32)[label]


PROGRAM = program.Program(make_model_fn, rows)
