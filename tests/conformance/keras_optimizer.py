"""A Keras optimizer in a `model_fn`, applied by `minimize`, with a schedule and a clipped norm.

Equal on uneven shards: it clips the gathered gradient. One device has the idiom of TensorFlow's
migration guide: `iterations` is the global step, and `get_updates` the train operation.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator


def by_get_updates(optimizer, loss, model):
    optimizer.iterations = tf.train.get_or_create_global_step()
    return optimizer.get_updates(loss, model.trainable_variables)[0]


def by_minimize(optimizer, loss, model):
    optimizer = replicate.TowerOptimizer(optimizer)
    step = tf.train.get_or_create_global_step()
    return optimizer.minimize(loss, step, var_list=model.trainable_variables)


def model_fn_builder(train):
    def model_fn(features, labels, mode, params):
        model = tf.keras.Sequential(
            [tf.keras.layers.Dense(8, activation="swish"), tf.keras.layers.Dense(3)]
        )
        logits = model(features)
        if mode == estimator.ModeKeys.PREDICT:
            return estimator.EstimatorSpec(mode, predictions={"logits": logits})
        loss = tf.reduce_mean(
            tf.keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        )
        if mode == estimator.ModeKeys.EVAL:
            accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
            accuracy.update_state(labels, logits)
            return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
        schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.01, 2, 0.9)
        optimizer = tf.keras.optimizers.Adam(schedule, epsilon=1e-4, global_clipnorm=0.3)
        return estimator.EstimatorSpec(mode, loss=loss, train_op=train(optimizer, loss, model))

    return model_fn


def rows(total):
    return data.vectors(total)


PROGRAM = program.Program(
    lambda: model_fn_builder(by_minimize),
    rows,
    make_original=lambda: model_fn_builder(by_get_updates),
)
