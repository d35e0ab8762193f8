"""Metrics of every kind, each a function of `h`, [n, 3], and of the `Batch` that makes some."""

import tensorflow.compat.v1 as tf

from partition import model_inputs, row_losses, tables
from partition.harness import ModeKeys
from partition.model_inputs import F64, one_hot


def model_of(metrics):
    """Returns the `model_fn` whose metrics, a dictionary, `metrics(h, batch)` makes."""

    def model(features, labels, mode, params):
        h = model_inputs.hidden(features["x"])
        predictions = {
            "h": h,
            "class": tf.argmax(h, axis=1),
            "share": tf.nn.softmax(h, axis=0),  # Of a row in its batch.
            "rank": tf.argsort(h[:, 0]),
        }
        if labels is None:
            return tables.spec_of(mode, predictions, None, params)
        batch = model_inputs.Batch(**features, **labels)
        made = metrics(h, batch) if mode == ModeKeys.EVAL else {}
        return tables.spec_of(mode, predictions, row_losses.mean(h, batch), params, made)

    return model


def _truths(h, batch):
    """Returns whether rows have class 0, and its probability: [n] and [n]."""
    return tf.equal(batch.k, 0), tf.cast(tf.nn.softmax(h)[:, 0], tf.float32)


def means(h, batch):
    rows = row_losses.squares(h, batch)
    return {
        "mean": tf.metrics.mean(rows),
        "weighted": tf.metrics.mean(h, batch.weight),
        "tensor": tf.metrics.mean_tensor(tf.reduce_mean(h, axis=0)),
        "below": tf.metrics.percentage_below(h, 0.1),
    }


def errors(h, batch):
    one, other = h[:, :1], batch.y
    unit = [tf.nn.l2_normalize(x, 1) for x in (one_hot(batch.k), h)]
    return {
        "absolute": tf.metrics.mean_absolute_error(other, one),
        "squared": tf.metrics.mean_squared_error(other, one, batch.weight),
        "root": tf.metrics.root_mean_squared_error(other, one),
        "relative": tf.metrics.mean_relative_error(other, one, tf.abs(other) + 1.0),
        "cosine": tf.metrics.mean_cosine_distance(*unit, dim=1),
    }


def classes(h, batch):
    found = tf.argmax(h, axis=1)
    return {
        "accuracy": tf.metrics.accuracy(batch.k, found),
        "weighted": tf.metrics.accuracy(batch.k, found, batch.weight[:, 0]),
        "per_class": tf.metrics.mean_per_class_accuracy(batch.k, found, 3),
        "iou": tf.metrics.mean_iou(batch.k, found, 3),
    }


def counts(h, batch):
    truths, likely = _truths(h, batch)
    found = likely > 0.4
    return {
        "precision": tf.metrics.precision(truths, found),
        "recall": tf.metrics.recall(truths, found, batch.weight[:, 0]),
        "hits": tf.metrics.true_positives(truths, found),
        "misses": tf.metrics.false_negatives(truths, found),
        "alarms": tf.metrics.false_positives(truths, found),
        "rest": tf.metrics.true_negatives_at_thresholds(truths, likely, [0.2, 0.5]),
    }


def curves(h, batch):
    truths, likely = _truths(h, batch)
    return {
        "roc": tf.metrics.auc(truths, likely, num_thresholds=30),
        "pr": tf.metrics.auc(
            truths,
            likely,
            num_thresholds=30,
            curve="PR",
            summation_method="careful_interpolation",
        ),
        "sensitivity": tf.metrics.sensitivity_at_specificity(truths, likely, 0.5, num_thresholds=9),
        "specificity": tf.metrics.specificity_at_sensitivity(truths, likely, 0.5, num_thresholds=9),
        "precisions": tf.metrics.precision_at_thresholds(truths, likely, [0.2, 0.4]),
        "recalls": tf.metrics.recall_at_thresholds(truths, likely, [0.2, 0.4]),
    }


def rankings(h, batch):
    k = tf.cast(batch.k, tf.int64)[:, None]
    return {
        "precision": tf.metrics.precision_at_k(k, h, 2),
        "recall": tf.metrics.recall_at_k(k, h, 2, weights=batch.weight[:, 0]),
        "average": tf.metrics.average_precision_at_k(k, tf.cast(h, tf.float32), 3),
        "of_class": tf.metrics.recall_at_k(k, h, 1, class_id=1),
    }


def of_batches(h, batch):
    """Means over batches of what a batch has as a whole."""
    rows = row_losses.squares(h, batch)
    return {
        "largest": tf.metrics.mean(tf.reduce_max(rows)),
        "deviation": tf.metrics.mean(tf.sqrt(tf.math.reduce_variance(rows) + 0.01)),
        "median": tf.metrics.mean(tf.sort(rows)[tf.size(rows) // 2]),
        "rows": tf.metrics.mean(tf.cast(tf.shape(h)[0], F64)),
        "pairs": tf.metrics.mean(tf.matmul(h, h, transpose_b=True)),
        "classes": tf.metrics.mean(tf.size(tf.unique(batch.k)[0])),
    }


def _state(name, shape):
    return tf.Variable(
        tf.zeros(shape, F64),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES],
        name=name,
    )


def by_hand(h, batch):
    """A correlation, and the table of classes, of variables of their own."""
    a, b = h[:, 0], batch.y[:, 0]
    sums, table = _state("sums", [6]), _state("table", [3, 3])
    moments = [tf.ones_like(a), a, b, a * a, b * b, a * b]
    added = tf.assign_add(sums, tf.reduce_sum(tf.stack(moments), axis=1))
    found = tf.argmax(h, axis=1)
    counted = tf.assign_add(table, tf.math.confusion_matrix(batch.k, found, 3, dtype=F64))

    def correlation(values):
        n, a, b, aa, bb, ab = tf.unstack(values)
        return (n * ab - a * b) / tf.sqrt((n * aa - a**2) * (n * bb - b**2) + 1e-3)

    return {
        "pearson": (correlation(tf.identity(sums)), correlation(added)),
        "table": (tf.identity(table), tf.identity(counted)),
    }


MODELS = {
    function.__name__: model_of(function)
    for function in (means, errors, classes, counts, curves, rankings, of_batches, by_hand)
}
