"""A recurrent Keras layer over masked embeddings, in a `model_fn`.

Equal on uneven shards. The layer has a `while_loop` in it, which skips masked steps.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator

layers = tf.keras.layers


def model_fn(features, labels, mode, params):
    model = tf.keras.Sequential(
        [
            layers.Embedding(params["vocabulary"], 4, mask_zero=True),
            layers.SimpleRNN(3),
            layers.Dense(1, use_bias=False),
        ]
    )
    logits = model(features, training=mode == estimator.ModeKeys.TRAIN)
    if mode == estimator.ModeKeys.PREDICT:
        return estimator.EstimatorSpec(mode, predictions={"probability": tf.nn.sigmoid(logits)})
    labels = tf.cast(tf.expand_dims(labels, -1), tf.float32)
    loss = tf.reduce_mean(tf.keras.losses.binary_crossentropy(labels, logits, from_logits=True))
    accuracy = tf.keras.metrics.BinaryAccuracy(threshold=0.0)
    accuracy.update_state(labels, logits)
    optimizer = replicate.TowerOptimizer(tf.train.AdagradOptimizer(0.1))
    return estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, tf.train.get_or_create_global_step()),
        eval_metric_ops={"accuracy": accuracy},
    )


def rows(total):
    words, _, labels = data.sentences(total)
    return words, labels


PROGRAM = program.Program(program.as_model_fn(model_fn), rows, params=(("vocabulary", 20),))
