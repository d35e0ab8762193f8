"""A model: layers of three kinds of Keras' and TensorFlow's, and what `contrib` had."""

import tensorflow
import tensorflow as tf
import tensorflow.keras as K  # noqa: N812
import tensorflow.keras.layers
from tensorflow import keras, layers
from tensorflow.contrib import estimator as contrib_estimator
from tensorflow.contrib import rnn
from tensorflow.contrib.estimator import TowerOptimizer, replicate_model_fn
from tensorflow.contrib.layers import xavier_initializer
from tensorflow.contrib.layers.python.layers import initializers, regularizers
from tensorflow.contrib.learn import ModeKeys
from tensorflow.contrib.tpu.python.tpu import tpu_config
from tensorflow.keras.layers import Dense
from tensorflow.nn import rnn_cell
from tensorflow.train import GradientDescentOptimizer

assert keras is K and K.layers.Dense is Dense is tensorflow.keras.layers.Dense
assert rnn_cell.LSTMCell is rnn.LSTMCell is tf.nn.rnn_cell.LSTMCell
assert tpu_config.TPUConfig(3).iterations_per_loop == 3
assert initializers.xavier_initializer is xavier_initializer
assert tf.contrib is tensorflow.contrib


def model_fn(features, labels, mode, params):
    glorot = tf.glorot_uniform_initializer(seed=3)
    penalty = regularizers.l2_regularizer(0.01)
    with tf.variable_scope("model", initializer=glorot, regularizer=penalty):
        table = tf.get_variable("words", [3, 2], initializer=xavier_initializer(seed=1))
        hidden = tf.concat([features["x"], tf.nn.embedding_lookup(table, features["w"])], 1)
        hidden = layers.dense(
            hidden,
            params.units,
            tf.tanh,
            kernel_initializer=tf.contrib.layers.xavier_initializer(seed=2),
        )
        cell = rnn.BasicLSTMCell(2)
        _, state = tf.nn.dynamic_rnn(cell, hidden[:, :, None], dtype=tf.float32)
    hidden = Dense(2, kernel_initializer=K.initializers.Zeros())(state.h)
    head = contrib_estimator.regression_head(loss_reduction=tf.losses.Reduction.SUM)
    wrapped = TowerOptimizer(
        contrib_estimator.clip_gradients_by_norm(GradientDescentOptimizer(params.rate), 0.5)
    )
    if mode == ModeKeys.EVAL:
        predicted = tf.reduce_sum(hidden, 1)
        metrics = {"mae": tf.metrics.mean_absolute_error(labels, predicted)}
        return tf.estimator.EstimatorSpec(
            mode, loss=tf.losses.mean_squared_error(labels, predicted), eval_metric_ops=metrics
        )
    return head.create_estimator_spec(
        features, mode, tf.reduce_sum(hidden, 1, keep_dims=True), labels[:, None], optimizer=wrapped
    )


def replicated(devices):
    return replicate_model_fn(model_fn, devices=devices)
