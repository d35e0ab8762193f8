"""Canned estimators' model functions, of sparse features, as their users make them."""

import tensorflow.compat.v1 as tf

from partition import published_columns
from partition.published_inputs import CITIES

COLUMN = tf.feature_column
NAMES = "item", "city", "age", "bag", "bag_weights", "names", "feat_ids"


def _of(make, label):
    """Returns the `model_fn` of the estimator that `make` makes."""

    def model_fn(features, labels, mode, params):
        given = {name: features[name] for name in NAMES}
        target = None if labels is None else labels[label]
        target = tf.cast(target, tf.int32 if label == "k" else tf.float32) if labels else None
        return make(params["optimizer"]).model_fn(given, target, mode, tf.estimator.RunConfig())

    return model_fn


def _dnn(optimizer):
    bag = COLUMN.categorical_column_with_identity("bag", 12)
    names = COLUMN.categorical_column_with_hash_bucket("names", 7)
    columns = [
        COLUMN.embedding_column(bag, 3, combiner="sum"),
        COLUMN.embedding_column(COLUMN.weighted_categorical_column(bag, "bag_weights"), 2),
        COLUMN.indicator_column(names),
        COLUMN.numeric_column("age", normalizer_fn=lambda age: age / 50.0),
    ]
    return tf.estimator.DNNClassifier(
        [6, 4], columns, n_classes=3, optimizer=optimizer, batch_norm=True
    )


def _linear(optimizer):
    columns = [
        COLUMN.categorical_column_with_identity("bag", 12),
        COLUMN.categorical_column_with_vocabulary_list("city", CITIES, num_oov_buckets=2),
        COLUMN.crossed_column(["names", "city"], 13),
    ]
    return tf.estimator.LinearRegressor(
        columns, optimizer=lambda: tf.train.FtrlOptimizer(0.1), sparse_combiner="sqrtn"
    )


def _combined(optimizer):
    wide, deep = published_columns.columns()
    return tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=wide,
        linear_optimizer=lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001),
        dnn_feature_columns=deep,
        dnn_optimizer=lambda: tf.train.AdagradOptimizer(0.05),
        dnn_hidden_units=[6],
    )


MODELS = {
    "dnn_classifier": _of(_dnn, "k"),
    "linear_regressor": _of(_linear, "y"),
    "wide_and_deep": _of(_combined, "click"),
}
for _model in MODELS.values():
    _model.options = {"batch_norm": "batch"}
