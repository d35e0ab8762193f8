"""A Keras `Sequential` in a `model_fn`: weight penalties, batch norm's updates, `model.losses`.

Equal, because batch norm sees the same rows in every shard: a batch is four rows six times over,
with labels that differ. The penalties are those of the whole model in every tower.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator

L2 = tf.keras.regularizers.l2(0.01)


def build():
    return tf.keras.Sequential(
        [
            # A bias in front of batch norm has a gradient of rounding errors, which Adam enlarges.
            tf.keras.layers.Dense(8, use_bias=False, kernel_regularizer=L2),
            tf.keras.layers.BatchNormalization(momentum=0.9),
            tf.keras.layers.Activation("tanh"),
            tf.keras.layers.Dense(6, use_bias=False, kernel_regularizer=L2),
            tf.keras.layers.BatchNormalization(momentum=0.9),
            tf.keras.layers.Activation("tanh"),
            tf.keras.layers.Dense(3),
        ]
    )


def model_fn(features, labels, mode, params):
    model = build()
    logits = model(features["x"], training=mode == estimator.ModeKeys.TRAIN)
    probabilities = tf.nn.softmax(logits)
    predictions = {"class": tf.argmax(logits, axis=-1), "probabilities": probabilities}
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions=predictions)

    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss += tf.add_n(model.losses)
    if mode == estimator.ModeKeys.EVAL:
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
        accuracy.update_state(labels, probabilities)
        metrics = {
            "accuracy": accuracy,
            "top_2": tf.metrics.recall_at_k(labels, logits, k=2),
        }
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    optimizer = replicate.TowerOptimizer(tf.train.AdamOptimizer(learning_rate=0.01))
    with tf.control_dependencies(model.updates):
        train_op = optimizer.minimize(
            loss, tf.train.get_global_step(), var_list=model.trainable_variables
        )
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    x, labels = data.vectors(total)
    return {"x": data.tiled(x)}, labels


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, batches=program.TILED)
