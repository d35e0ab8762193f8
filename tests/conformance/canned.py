"""Every canned Estimator, with every way to say its optimizer, one line changed: `PROGRAMS`.

By each name that Estimators know, by default, as an instance, by a function, and with a rate that
decays by the global step. Nobody wraps the optimizers, nor says how the loss is made: those of
TensorFlow 1 are sums over rows, those of 2 means. Equal on uneven shards. Every sentence has the
same length.
"""

import operator

import numpy as np
import tensorflow.compat.v1 as tf

from conformance import data, head_api, program, rnn_canned, version_2
from replicate import estimator
from versions import legacy

schedules = tf.keras.optimizers.schedules


def decaying(optimizer, rate):
    """A function that makes an optimizer whose rate goes by the global step."""

    def make():
        step = tf.train.get_or_create_global_step()
        return optimizer(tf.train.exponential_decay(rate, step, decay_steps=2, decay_rate=0.5))

    return make


NAMES = {name: lambda name=name: name for name in ("Adagrad", "Adam", "Ftrl", "RMSProp", "SGD")}
# Makes the argument `optimizer`, once for each Estimator; None: it is left out.
OPTIMIZERS = {
    "v1": {
        "default": None,
        **NAMES,
        "instance": lambda: tf.train.MomentumOptimizer(0.02, 0.9),
        "function": lambda: lambda: tf.train.ProximalAdagradOptimizer(0.05, 0.1, 0.01, 0.01),
        "decay": lambda: decaying(tf.train.GradientDescentOptimizer, 0.02),
    },
    "v2": {
        "default": None,
        **NAMES,
        "instance": lambda: legacy.SGD(0.1, momentum=0.9, nesterov=True),
        "function": lambda: lambda: legacy.Adadelta(0.5),
        "decay": lambda: decaying(legacy.Adam, 0.05),
        "schedule": lambda: legacy.SGD(schedules.ExponentialDecay(0.1, 2, 0.5, staircase=True)),
    },
}


def linear_columns():
    column = tf.feature_column
    job = column.categorical_column_with_vocabulary_list("job", data.JOBS)
    hours = column.numeric_column("hours", normalizer_fn=lambda x: x / 60.0)
    return [hours, job, column.crossed_column(["job", "town"], 20)]


def deep_columns():
    column = tf.feature_column
    town = column.categorical_column_with_hash_bucket("town", 12)
    hours = column.numeric_column("hours", normalizer_fn=lambda x: x / 60.0)
    return [hours, column.embedding_column(town, 3)]


def linear():
    return {"feature_columns": linear_columns()}


def deep():
    return {"feature_columns": deep_columns(), "hidden_units": [6], "activation_fn": tf.nn.tanh}


def both():
    return {
        "linear_feature_columns": linear_columns(),
        "dnn_feature_columns": deep_columns(),
        "dnn_hidden_units": [6],
        "dnn_activation_fn": tf.nn.tanh,
    }


def classes():
    return {"n_classes": 3}


def targets():
    return {"label_dimension": 2, "weight_column": "weight"}


def head():
    return {"head": estimator.MultiLabelHead(3)}


def old_head():
    """As `tf.contrib.estimator.regression_head` made them; newer ones want Keras' optimizers."""
    return {"head": version_2.heads_of_1()._regression_head(label_dimension=3)}


def heads():
    color = estimator.MultiClassHead(n_classes=3, name="color")
    size = estimator.RegressionHead(label_dimension=2, name="size")
    return {"head": estimator.MultiHead([color, size], head_weights=[1.0, 2.0])}


def sequences():
    words = tf.feature_column.sequence_categorical_column_with_identity("words", 20)
    columns = [tf.feature_column.embedding_column(words, 3)]
    return {"sequence_feature_columns": columns, "units": [4, 3]}


def binary():
    return {"head": estimator.BinaryClassHead(), "cell_type": "lstm"}


def tagged():
    """A class for each word."""
    return {"n_classes": 3, "return_sequences": True, "cell_type": "simple_rnn"}


def class_rows(total):
    features, _ = data.census(total)
    return features, np.random.RandomState(6).randint(0, 3, size=(total, 1)).astype(np.int64)


def target_rows(total):
    features, _ = data.census(total)
    random = np.random.RandomState(6)
    features["weight"] = random.uniform(0.5, 2, size=(total, 1)).astype(np.float32)
    return features, random.normal(size=(total, 2)).astype(np.float32)


def label_rows(total):
    features, _ = data.census(total)
    return features, np.random.RandomState(6).randint(0, 2, size=(total, 3)).astype(np.int64)


def heads_rows(total):
    features, _ = data.census(total)
    return features, head_api.rows(total)[1]


def word_rows(total):
    features, _ = rnn_canned.rows(total)
    return features, features["words"] % 3


def as_sparse(features, labels):
    """Sequences of labels are sparse; that of 0 is the first, so that none may be left out."""
    features, _ = rnn_canned.as_sparse(features, None)
    if labels is not None:
        tags = tf.sparse.from_dense(labels + 1)
        labels = tf.SparseTensor(tags.indices, tf.cast(tags.values - 1, tf.int64), tags.dense_shape)
    return features, labels


def metric(features, labels, predictions):
    """Is added from outside, by `add_metrics`."""
    del labels
    (scores,) = [predictions[key] for key in ("logits", "predictions") if key in predictions]
    mean = tf.keras.metrics.Mean("mean_hours")
    mean.update_state(features["hours"], tf.abs(scores)[:, :1])
    return {"mean_hours": mean}


# By names and versions: what makes arguments, of columns and of labels; rows; more of `Program`.
ESTIMATORS = {
    ("LinearClassifier", "v1 v2"): ([linear, classes], class_rows, {}),
    ("LinearRegressor", "v1 v2"): ([linear, targets], target_rows, {}),
    ("LinearEstimator", "v1"): ([linear, old_head], label_rows, {}),
    ("LinearEstimator", "v2"): ([linear, head], label_rows, {}),
    ("DNNClassifier", "v1 v2"): ([deep, classes], class_rows, {}),
    ("DNNRegressor", "v1 v2"): ([deep, targets], target_rows, {}),
    ("DNNEstimator", "v1"): ([deep, old_head], label_rows, {}),
    ("DNNEstimator", "v2"): ([deep, heads], heads_rows, {}),
    ("DNNLinearCombinedClassifier", "v1 v2"): ([both, classes], class_rows, {}),
    ("DNNLinearCombinedRegressor", "v1 v2"): ([both, targets], target_rows, {}),
    ("DNNLinearCombinedEstimator", "v1"): ([both, old_head], label_rows, {}),
    ("DNNLinearCombinedEstimator", "v2"): ([both, head], label_rows, {}),
    ("BaselineClassifier", "v1 v2"): ([classes], class_rows, {}),
    ("BaselineRegressor", "v1 v2"): ([targets], target_rows, {}),
    ("BaselineEstimator", "v1"): ([old_head], label_rows, {}),
    ("BaselineEstimator", "v2"): ([head], label_rows, {}),
    ("experimental.RNNEstimator", "v2"): (
        [sequences, binary],
        rnn_canned.rows,
        {"parse": rnn_canned.as_sparse},
    ),
    ("experimental.RNNClassifier", "v2"): ([sequences, tagged], word_rows, {"parse": as_sparse}),
}


# Of a gradient that is exactly 0 on one device, where rows cancel out, towers have what is left of
# rounding, which Adam makes a step of.
COARSE = {("v2", "LinearEstimator", "Adam"): {"tolerance": 5e-4}}


def make_program(name, version, way, optimizer):
    arguments, rows, more = ESTIMATORS[name]
    more = {**more, **COARSE.get((version, name[0], way), {})}

    def make_model_fn():
        api = estimator if version == "v1" else version_2.api()
        given = {key: value for make in arguments for key, value in make().items()}
        if optimizer is not None:
            parts = ["dnn_", "linear_"] if "Combined" in name[0] else [""]
            given.update({f"{part}optimizer": optimizer() for part in parts})
        canned = operator.attrgetter(name[0])(api)(**given)
        # `MultiHead` has logits for each head.
        has_hours = "RNN" not in name[0] and heads not in arguments
        return (api.add_metrics(canned, metric) if has_hours else canned).model_fn

    return program.Program(make_model_fn, rows, **more)


PROGRAMS = {
    f"{version}-{name[0]}-{way}": make_program(name, version, way, optimizer)
    for name in ESTIMATORS
    for version in name[1].split()
    for way, optimizer in OPTIMIZERS[version].items()
}
