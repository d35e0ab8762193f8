"""How classifiers are measured: over all rows but padding, on every engine.

Labels are one-hot, float32 [rows, classes]. A row of zeros is padding, which counts for nothing.
"""

import tensorflow.compat.v1 as tf

from replicate import estimator


def weights(labels):
    """Returns 1 for each row, 0 for padding: float32 [rows]."""
    return tf.reduce_sum(labels, axis=1)


def predictions(logits):
    """Returns a dict of `classes`, int64 [rows], and `probabilities`, [rows, classes]."""
    return {"classes": tf.argmax(logits, axis=1), "probabilities": tf.nn.softmax(logits)}


def metrics(labels, logits):
    """Returns the metrics of an Estimator; on TPUs called on the host.

    Returns:
        Dict of `accuracy`, `cross_entropy` (the mean, in nats) and `num_images`.
    """
    classes = tf.argmax(labels, axis=1)
    losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
    true = tf.ones_like(classes)
    return {
        "accuracy": tf.metrics.accuracy(classes, tf.argmax(logits, axis=1), weights(labels)),
        "cross_entropy": tf.metrics.mean(losses, weights(labels)),
        "num_images": tf.metrics.true_positives(true, true, weights(labels)),
    }


def inference_spec(mode, logits, labels, loss, params):
    """Returns the spec of a model that is evaluated, or predicts.

    Args:
        mode: `ModeKeys.EVAL` or `ModeKeys.PREDICT`.
        logits: Float [rows, classes].
        labels: See above; None to predict.
        loss: Scalar; None to predict.
        params: Settings, of which `use_tpu` says whether it is a `TPUEstimatorSpec`.
    """
    new_spec = estimator.tpu.TPUEstimatorSpec if params["use_tpu"] else estimator.EstimatorSpec
    if mode == estimator.ModeKeys.PREDICT:
        return new_spec(mode, predictions=predictions(logits))
    if params["use_tpu"]:
        return new_spec(mode, loss=loss, eval_metrics=(metrics, [labels, logits]))
    return new_spec(mode, loss=loss, eval_metric_ops=metrics(labels, logits))
