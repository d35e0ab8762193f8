"""The `model_fn` of a RevNet, one for plain Estimators, for towers and for TPUEstimators."""

import tensorflow.compat.v1 as tf

import replicate
from examples.classifiers import evaluation
from examples.data import tpu
from examples.revnet.network.model import RevNet
from examples.revnet.training import optimizer as optimizer_lib
from examples.revnet.training.train_settings import network
from examples.runs import summaries
from examples.runs.flags import SettingsError
from replicate import estimator


def make_model(params):
    """Returns the `RevNet` of resolved settings.

    Raises:
        SettingsError: If TensorFlow cannot compute it on this host.
    """
    try:
        return RevNet(network(params))
    except ValueError as error:
        raise SettingsError(f"This network does not run here: {error}") from error


def network_input(images, params):
    """Returns images in the `data_format` of the network.

    Args:
        images: Float [rows, height, width, channels]; on TPUs [height, width, channels, rows].
        params: Settings. Those used are `use_tpu` and `data_format`.
    """
    images = tpu.network_input(images, params)
    is_first = params["data_format"] == "channels_first"
    return tf.transpose(images, [0, 3, 1, 2]) if is_first else images


def scalars(loss, labels, logits, learning_rate):
    """Returns the scalars that training shows in TensorBoard, by tag; without towers."""
    hits = tf.equal(tf.argmax(labels, axis=1), tf.argmax(logits, axis=1))
    return {
        "model/loss": loss,
        "model/accuracy": tf.reduce_mean(tf.cast(hits, tf.float32)),
        "model/learning_rate": learning_rate,
    }


def model_fn(features, labels, mode, params):
    """Builds a network; an Estimator's `model_fn`, to be replicated or not.

    Args:
        features: Images, float32 [rows, height, width, channels]; with `params['use_tpu']`,
            [height, width, channels, rows].
        labels: One-hot labels, float32 [rows, classes]. A row of zeros marks padding, which counts
            for nothing in evaluation. None to predict.
        mode: A `tf.estimator.ModeKeys`.
        params: Dict of all settings, see `train_settings.py`.

    Returns:
        An `EstimatorSpec`, on TPUs a `TPUEstimatorSpec`. Predictions are `classes`, int64 [rows],
        and `probabilities`, float [rows, classes].
    """
    model = make_model(params)
    images = network_input(features, params)
    if mode == estimator.ModeKeys.TRAIN:
        return _training(model, images, labels, params)

    logits, _ = model(images, training=False)
    if mode == estimator.ModeKeys.PREDICT:
        return evaluation.inference_spec(mode, logits, None, None, params)
    labels = tf.cast(labels, logits.dtype)
    weights = evaluation.weights(labels)
    losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
    loss = tf.math.divide_no_nan(tf.reduce_sum(losses * weights), tf.reduce_sum(weights))
    loss = tf.add_n([loss, *model.losses])
    return evaluation.inference_spec(mode, logits, labels, loss, params)


def _training(model, images, labels, params):
    logits, saved_hidden = model(images, training=True)
    grads, loss = model.compute_gradients(saved_hidden, labels)
    step = tf.train.get_or_create_global_step()
    learning_rate = optimizer_lib.schedule(params)(step)
    optimizer = replicate.TowerOptimizer(optimizer_lib.momentum(learning_rate, params))
    update = optimizer.apply_gradients(zip(grads, model.trainable_variables), step)
    shown = replicate.cross_tower_mean(scalars(loss, labels, logits, learning_rate))
    train_op = tf.group(update, *model.updates)
    return summaries.make_spec(estimator.ModeKeys.TRAIN, loss, train_op, shown, params)
