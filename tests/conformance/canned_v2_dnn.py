"""V2's `DNNClassifier` as it is by default, one line changed: Adagrad, three classes.

Equal on uneven shards.
"""

import tensorflow.compat.v1 as tf

from conformance import data, program, version_2


def make_model_fn():
    classifier = version_2.api().DNNClassifier(
        hidden_units=[8, 6],
        feature_columns=[tf.feature_column.numeric_column("x", shape=5)],
        activation_fn=tf.nn.tanh,
        n_classes=3,
    )
    return classifier.model_fn


def rows(total):
    x, label = data.vectors(total)
    return {"x": x}, label[:, None]


PROGRAM = program.Program(make_model_fn, rows)
