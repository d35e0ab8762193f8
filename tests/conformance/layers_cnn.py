"""A convolutional classifier of `tf.layers`, with batch norm and dropout, as tutorials had it.

Equal, because batch norm sees the same images in every shard: a batch is four images six times
over, with labels that differ. `fused=False`, since fused batch norm corrects the variance by the
number of rows at hand. Dropout draws for a row by its id and the step, whichever tower has it.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def dropout(x, ids, rate):
    """Dropout whose mask is the row's own."""
    step = tf.cast(tf.train.get_or_create_global_step(), tf.int32)
    mask = tf.map_fn(
        lambda row: tf.random.stateless_uniform(x.shape[1:], [row, step]), ids, tf.float32
    )
    return tf.where(mask >= rate, x / (1 - rate), tf.zeros_like(x))


def cnn(images, ids, is_training):
    net = tf.layers.conv2d(images, 4, 3, padding="same", use_bias=False, name="conv1")
    net = tf.layers.batch_normalization(net, training=is_training, fused=False, name="bn1")
    net = tf.layers.max_pooling2d(tf.nn.relu(net), 2, 2)
    net = tf.layers.conv2d(net, 6, 3, padding="same", use_bias=False, name="conv2")
    net = tf.layers.batch_normalization(net, training=is_training, fused=False, name="bn2")
    net = tf.layers.flatten(tf.layers.average_pooling2d(tf.nn.relu(net), 2, 2))
    net = tf.layers.dense(net, 8, activation=tf.nn.relu)
    if is_training:
        net = dropout(net, ids, rate=0.4)
    return tf.layers.dense(net, 4, name="logits")


def model_fn(features, labels, mode, params):
    is_training = mode == estimator.ModeKeys.TRAIN
    logits = cnn(features["image"], features["id"], is_training)
    predictions = {
        "classes": tf.argmax(logits, axis=1),
        "probabilities": tf.nn.softmax(logits, name="softmax_tensor"),
    }
    if mode == estimator.ModeKeys.PREDICT:
        outputs = {"classify": estimator.export.PredictOutput(predictions)}
        return estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)

    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    accuracy = tf.metrics.accuracy(labels, predictions["classes"])
    if mode == estimator.ModeKeys.EVAL:
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})

    tf.summary.image("images", features["image"], max_outputs=1)
    tf.summary.scalar("train_accuracy", accuracy[1])
    optimizer = replicate.TowerOptimizer(tf.train.MomentumOptimizer(params["learning_rate"], 0.9))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    logging_hook = tf.train.LoggingTensorHook({"probabilities": "softmax_tensor"}, every_n_iter=50)
    return estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, training_hooks=[logging_hook]
    )


def rows(total):
    images, labels = data.images(total)
    return {"image": data.tiled(images), "id": np.arange(total, dtype=np.int32)}, labels


PROGRAM = program.Program(
    program.as_model_fn(model_fn),
    rows,
    batches=program.TILED,
    params=(("learning_rate", 0.05),),
)
