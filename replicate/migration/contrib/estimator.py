"""Heads, and extensions of optimizers and Estimators, of `tf.contrib.estimator`."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import tensorflow.compat.v1 as tf

from replicate.compat import kept

_MEAN = tf.losses.Reduction.SUM_OVER_BATCH_SIZE


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: str = _MEAN,
    loss_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Returns a head that predicts one of more than two classes.

    Args:
        n_classes: Number of classes.
        weight_column: The feature that holds the weights of rows.
        label_vocabulary: The classes, if labels are strings.
        loss_reduction: How the losses of rows are reduced to one.
        loss_fn: Function of labels and logits that returns the losses of rows.
        name: Prefix of the names of metrics and predictions.
    """
    return kept.multi_class_head(
        n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name
    )


def binary_classification_head(
    weight_column: Any = None,
    thresholds: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: str = _MEAN,
    loss_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Returns a head that predicts one of two classes.

    Args:
        weight_column: The feature that holds the weights of rows.
        thresholds: Probabilities at which to measure accuracy, precision and recall.
        label_vocabulary: The classes, if labels are strings.
        loss_reduction: How the losses of rows are reduced to one.
        loss_fn: Function of labels and logits that returns the losses of rows.
        name: Prefix of the names of metrics and predictions.
    """
    return kept.binary_head(
        weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name
    )


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    loss_fn: Callable[..., Any] | None = None,
    inverse_link_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Returns a head that predicts numbers, with the mean squared error as loss.

    Args:
        weight_column: The feature that holds the weights of rows.
        label_dimension: Number of values per row.
        loss_reduction: How the losses of rows are reduced to one.
        loss_fn: Function of labels and logits that returns the losses of rows.
        inverse_link_fn: Function from logits to predictions.
        name: Prefix of the names of metrics and predictions.
    """
    return kept.regression_head(
        weight_column, label_dimension, loss_reduction, loss_fn, inverse_link_fn, name
    )


def poisson_regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    compute_full_loss: bool = True,
    name: str | None = None,
) -> Any:
    """Returns a head that predicts counts.

    Args:
        weight_column: The feature that holds the weights of rows.
        label_dimension: Number of counts per row.
        loss_reduction: How the losses of rows are reduced to one.
        compute_full_loss: Whether the loss includes Stirling's approximation.
        name: Prefix of the names of metrics and predictions.
    """

    def poisson_loss(labels: Any, logits: Any) -> Any:
        return tf.nn.log_poisson_loss(labels, logits, compute_full_loss)

    return kept.regression_head(
        weight_column, label_dimension, loss_reduction, poisson_loss, tf.exp, name
    )


def logistic_regression_head(
    weight_column: Any = None, loss_reduction: str = _MEAN, name: str | None = None
) -> Any:
    """Returns a head that predicts a probability.

    Args:
        weight_column: The feature that holds the weights of rows.
        loss_reduction: How the losses of rows are reduced to one.
        name: Prefix of the names of metrics and predictions.
    """

    def logistic_loss(labels: Any, logits: Any) -> Any:
        labels = kept.assert_range(labels, n_classes=2, message="Labels must be in range [0, 1]")
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    return kept.regression_head(weight_column, 1, loss_reduction, logistic_loss, tf.sigmoid, name)


def clip_gradients_by_norm(optimizer: tf.train.Optimizer, clip_norm: Any) -> tf.train.Optimizer:
    """Returns an optimizer that clips gradients by their global norm before another applies them.

    Args:
        optimizer: The optimizer that applies them.
        clip_norm: The largest norm.
    """
    return _Clipping(optimizer, clip_norm)


class _Clipping(tf.train.Optimizer):
    def __init__(self, optimizer: tf.train.Optimizer, clip_norm: Any) -> None:
        super().__init__(use_locking=False, name="ClipByNorm" + optimizer.get_name())
        self._optimizer = optimizer
        self._clip_norm = clip_norm

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[Any]:
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[Any],
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        gradients, variables = zip(*grads_and_vars)
        clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        return self._optimizer.apply_gradients(list(zip(clipped, variables)), global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> tf.Variable | None:
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        return self._optimizer.get_slot_names(*args, **kwargs)


def export_saved_model_for_mode(
    estimator: Any,
    export_dir_base: str,
    input_receiver_fn: Callable[[], Any],
    assets_extra: Any = None,
    as_text: bool = False,
    checkpoint_path: str | None = None,
    mode: str = "infer",
) -> Any:
    """Exports a SavedModel of one mode; returns its folder.

    Args:
        estimator: The Estimator to save.
        export_dir_base: Directory in which to make the folder.
        input_receiver_fn: Function that makes the receiver of inputs.
        assets_extra: Further files to put into the folder, by name.
        as_text: Whether to write text.
        checkpoint_path: The checkpoint; None for the latest.
        mode: One of `tf.estimator.ModeKeys`.
    """
    return estimator.export_saved_model(
        export_dir_base, input_receiver_fn, assets_extra, as_text, checkpoint_path, mode
    )


def export_all_saved_models(
    estimator: Any,
    export_dir_base: str,
    input_receiver_fn_map: Any,
    assets_extra: Any = None,
    as_text: bool = False,
    checkpoint_path: str | None = None,
) -> Any:
    """Exports a SavedModel of several modes; returns its folder.

    Args:
        estimator: The Estimator to save.
        export_dir_base: Directory in which to make the folder.
        input_receiver_fn_map: By mode, functions that make the receiver of inputs.
        assets_extra: Further files to put into the folder, by name.
        as_text: Whether to write text.
        checkpoint_path: The checkpoint; None for the latest.
    """
    return estimator.experimental_export_all_saved_models(
        export_dir_base, input_receiver_fn_map, assets_extra, as_text, checkpoint_path
    )
