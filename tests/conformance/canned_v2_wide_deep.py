"""V2's `DNNLinearCombinedClassifier`, one line changed: a rate that decays, FTRL by its instance.

Nobody wraps the optimizers. The one of the deep part is a function, since its rate goes by the
global step; that of the linear part is an optimizer of Keras. A metric is added from outside, and
rows have weights. Equal on uneven shards.
"""

import tensorflow.compat.v1 as tf

from conformance import canned_linear, data, program, version_2
from versions import legacy


def make_model_fn():
    column = tf.feature_column
    job = column.categorical_column_with_vocabulary_list("job", data.JOBS)
    v2 = version_2.api()
    classifier = v2.DNNLinearCombinedClassifier(
        linear_feature_columns=[job, column.categorical_column_with_hash_bucket("town", 30)],
        linear_optimizer=legacy.Ftrl(0.1, l1_regularization_strength=0.01),
        dnn_feature_columns=[column.numeric_column("hours"), column.embedding_column(job, 2)],
        dnn_optimizer=decaying_adam,
        dnn_hidden_units=[6],
        dnn_activation_fn=tf.nn.tanh,
        weight_column="weight",
    )
    return v2.add_metrics(classifier, metrics).model_fn


def decaying_adam():
    step = tf.train.get_or_create_global_step()
    return legacy.Adam(tf.train.exponential_decay(0.1, step, decay_steps=2, decay_rate=0.5))


def metrics(labels, predictions, features):
    error = tf.abs(tf.cast(labels, tf.float32) - predictions["logistic"])
    mean = tf.keras.metrics.Mean("mean_error")
    mean.update_state(error, features["weight"])
    return {"mean_error": mean}


PROGRAM = program.Program(make_model_fn, canned_linear.rows)
