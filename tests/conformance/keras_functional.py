"""A functional Keras model with two inputs, an embedding and a layer that is called twice.

Equal on uneven shards: nothing in it depends on other rows. Keras keeps counts of layers' names;
towers must not see one another's, or the checkpoint would tell.
"""

import numpy as np
import tensorflow.compat.v1 as tf

import replicate
from conformance import program
from replicate import estimator

layers = tf.keras.layers


def build(vocabulary):
    left = layers.Input([2], dtype=tf.int32, name="left")
    right = layers.Input([2], dtype=tf.int32, name="right")
    embed = layers.Embedding(vocabulary, 4, embeddings_regularizer=tf.keras.regularizers.l2(1e-3))
    encode = layers.Dense(5, activation="relu")
    sides = [encode(layers.Flatten()(embed(side))) for side in (left, right)]
    merged = layers.Concatenate()([*sides, layers.Multiply()(sides)])
    hidden = layers.Dense(6, activation="selu", activity_regularizer=None)(merged)
    score = layers.Dense(1, name="score")(layers.LayerNormalization()(hidden))
    return tf.keras.Model(inputs=[left, right], outputs=score)


def model_fn(features, labels, mode, params):
    model = build(params["vocabulary"])
    score = model([features["left"], features["right"]], training=mode == "train")
    if mode == estimator.ModeKeys.PREDICT:
        predictions = {"score": score}
        exported = {"serving_default": estimator.export.RegressionOutput(score)}
        return estimator.EstimatorSpec(mode, predictions=predictions, export_outputs=exported)

    mse = tf.keras.losses.MeanSquaredError()(labels, score)
    loss = mse + sum(model.losses)
    if mode == estimator.ModeKeys.EVAL:
        rmse = tf.keras.metrics.RootMeanSquaredError(name="rmse")
        rmse.update_state(labels, score)
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"rmse": rmse})

    tf.summary.scalar("mse", mse)
    optimizer = replicate.TowerOptimizer(tf.train.RMSPropOptimizer(0.01, epsilon=1e-3))
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    random = np.random.RandomState(3)
    ids = random.randint(0, 9, size=(2, total, 2)).astype(np.int32)
    labels = np.cos(ids.sum(axis=(0, 2)))[:, None].astype(np.float32)
    return {"left": ids[0], "right": ids[1]}, labels


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, params=(("vocabulary", 9),))
