"""Two models as Estimators have them, with summaries, names of tensors and hooks."""

import tensorflow.compat.v1 as tf

from partition import layer_models, model_inputs
from partition.harness import ModeKeys
from partition.model_inputs import F64


def _train(loss, params):
    step = tf.train.get_global_step()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return params["optimizer"]().minimize(loss, step)


def classifier(features, labels, mode, params):
    """Images and unfused batch norm; summaries of the whole batch."""
    x = layer_models.conv(features["image"], 4, use_bias=False)
    x = tf.nn.relu(layer_models.unfused(x, mode == ModeKeys.TRAIN))
    logits = tf.identity(layer_models.pooled(x), "logits")
    found = tf.argmax(logits, axis=1, name="found")
    if mode == ModeKeys.PREDICT:
        predictions = {"logits": logits, "found": found}
        return tf.estimator.EstimatorSpec(mode, predictions)
    rows = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels["k"], logits=logits)
    loss = tf.reduce_mean(rows, name="mean_loss")
    tf.summary.scalar("largest", tf.reduce_max(rows))
    tf.summary.scalar("rows", tf.shape(logits)[0])
    tf.summary.histogram("logits", logits)
    if mode == ModeKeys.EVAL:
        metrics = {
            "accuracy": tf.metrics.accuracy(labels["k"], found),
            "auc": tf.metrics.auc(tf.equal(labels["k"], 0), tf.nn.softmax(logits)[:, 0]),
        }
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=_train(loss, params))


def regressor(features, labels, mode, params):
    """A loss of pairs of rows, and metrics of batches."""
    h = model_inputs.hidden(features["x"], 1)
    logits = tf.identity(h, "logits")
    spread = tf.math.reduce_std(logits, name="spread")
    if mode == ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"y": logits, "rank": tf.argsort(h[:, 0])})
    pairs = (logits - tf.transpose(logits)) - (labels["y"] - tf.transpose(labels["y"]))
    loss = tf.add(
        tf.reduce_mean(pairs**2), tf.reduce_mean((logits - labels["y"]) ** 2), name="mean_loss"
    )
    tf.summary.scalar("spread", spread)
    tf.summary.histogram("pairs", pairs)
    if mode == ModeKeys.EVAL:
        metrics = {
            "rmse": tf.metrics.root_mean_squared_error(labels["y"], logits),
            "largest": tf.metrics.mean(tf.reduce_max(tf.abs(pairs))),
            "rows": tf.metrics.mean(tf.cast(tf.shape(logits)[0], F64)),
        }
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    gradients, variables = zip(*params["optimizer"]().compute_gradients(loss))
    gradients, norm = tf.clip_by_global_norm(gradients, 0.5)
    tf.summary.scalar("norm", norm)
    train_op = params["optimizer"]().apply_gradients(
        list(zip(gradients, variables)), tf.train.get_global_step()
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


MODELS = {"classifier": classifier, "regressor": regressor}
