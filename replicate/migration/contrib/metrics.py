"""Metrics of `tf.contrib.metrics`, which take predictions before labels; they call `tf.metrics`."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.migration.contrib.respelling import respelled

_ENDS = "weights metrics_collections updates_collections name"
_OF_TWO = f"predictions labels {_ENDS}"
# Name of each metric in `tf.metrics`, and the arguments in the order of `tf.contrib`.
_STREAMING = {
    "streaming_accuracy": ("accuracy", _OF_TWO),
    "streaming_auc": (
        "auc",
        "predictions labels weights num_thresholds metrics_collections updates_collections curve "
        "name",
    ),
    "streaming_false_negatives": ("false_negatives", _OF_TWO),
    "streaming_false_positives": ("false_positives", _OF_TWO),
    "streaming_mean": ("mean", f"values {_ENDS}"),
    "streaming_mean_absolute_error": ("mean_absolute_error", _OF_TWO),
    "streaming_mean_iou": ("mean_iou", f"predictions labels num_classes {_ENDS}"),
    "streaming_mean_relative_error": (
        "mean_relative_error",
        f"predictions labels normalizer {_ENDS}",
    ),
    "streaming_mean_squared_error": ("mean_squared_error", _OF_TWO),
    "streaming_mean_tensor": ("mean_tensor", f"values {_ENDS}"),
    "streaming_percentage_less": ("percentage_below", f"values threshold {_ENDS}"),
    "streaming_precision": ("precision", _OF_TWO),
    "streaming_precision_at_thresholds": (
        "precision_at_thresholds",
        f"predictions labels thresholds {_ENDS}",
    ),
    "streaming_recall": ("recall", _OF_TWO),
    "streaming_recall_at_thresholds": (
        "recall_at_thresholds",
        f"predictions labels thresholds {_ENDS}",
    ),
    "streaming_root_mean_squared_error": ("root_mean_squared_error", _OF_TWO),
    "streaming_sensitivity_at_specificity": (
        "sensitivity_at_specificity",
        "predictions labels specificity weights num_thresholds metrics_collections "
        "updates_collections name",
    ),
    "streaming_sparse_average_precision_at_k": (
        "average_precision_at_k",
        f"predictions labels k {_ENDS}",
    ),
    "streaming_sparse_precision_at_k": (
        "precision_at_k",
        f"predictions labels k class_id {_ENDS}",
    ),
    "streaming_sparse_recall_at_k": ("recall_at_k", f"predictions labels k class_id {_ENDS}"),
    "streaming_specificity_at_sensitivity": (
        "specificity_at_sensitivity",
        "predictions labels sensitivity weights num_thresholds metrics_collections "
        "updates_collections name",
    ),
    "streaming_true_negatives": ("true_negatives", _OF_TWO),
    "streaming_true_positives": ("true_positives", _OF_TWO),
}


def __getattr__(name: str) -> Any:
    """Makes a metric at its first use."""
    if name not in _STREAMING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function, arguments = _STREAMING[name]
    made = respelled(getattr(tf.metrics, function), name, arguments)
    return globals().setdefault(name, made)


def aggregate_metrics(*value_update_tuples: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Returns the values of metrics, and their updates, as two lists.

    Args:
        *value_update_tuples: Results of metrics: pairs of a value and an update.

    Raises:
        ValueError: If there are none.
    """
    if not value_update_tuples:
        raise ValueError("There must be a metric at least, but there is none.")
    values, updates = zip(*value_update_tuples)
    return list(values), list(updates)


def aggregate_metric_map(
    names_to_tuples: dict[str, tuple[Any, Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values of named metrics, and their updates, as two dicts.

    Args:
        names_to_tuples: Results of metrics by name: pairs of a value and an update.

    Raises:
        ValueError: If there are none.
    """
    if not names_to_tuples:
        raise ValueError(
            f"There must be a metric at least, but `names_to_tuples` is {names_to_tuples!r}."
        )
    values, updates = zip(*names_to_tuples.values())
    return dict(zip(names_to_tuples, values)), dict(zip(names_to_tuples, updates))
