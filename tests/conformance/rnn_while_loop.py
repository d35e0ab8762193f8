"""A recurrent network: `dynamic_rnn`, and a decoder that is a `tf.while_loop` of its own.

Equal on uneven shards, in float64. Rows end at their own lengths, and each shard's loop runs as
long as its longest row.
"""

import tensorflow.compat.v1 as tf

import replicate
from conformance import data, program
from replicate import estimator

VOCABULARY = 20


def encode(words, lengths, units):
    table = tf.get_variable(
        "embeddings",
        [VOCABULARY, 4],
        tf.float64,
        initializer=tf.random_uniform_initializer(-0.5, 0.5, dtype=tf.float64),
    )
    cell = tf.nn.rnn_cell.MultiRNNCell(
        [tf.nn.rnn_cell.GRUCell(units, dtype=tf.float64), tf.nn.rnn_cell.BasicLSTMCell(units)]
    )
    inputs = tf.nn.embedding_lookup(table, words)
    _, (_, state) = tf.nn.dynamic_rnn(cell, inputs, lengths, dtype=tf.float64)
    return state.h


def decode(state, steps):
    """Feeds the state back so many times; returns the mean of its states."""
    units = state.shape[-1]
    with tf.variable_scope("decoder"):
        kernel = tf.get_variable("kernel", [units, units], tf.float64)
        bias = tf.get_variable("bias", [units], tf.float64, tf.zeros_initializer())

    def body(time, state, outputs):
        state = tf.tanh(state @ kernel + bias)
        return time + 1, state, outputs.write(time, state)

    outputs = tf.TensorArray(tf.float64, size=0, dynamic_size=True)
    _, _, outputs = tf.while_loop(
        lambda time, *_: time < steps, body, (tf.constant(0), state, outputs)
    )
    return tf.reduce_mean(outputs.stack(), axis=0)


def model_fn(features, labels, mode, params):
    state = encode(features["words"], features["lengths"], params["units"])
    logits = tf.layers.dense(decode(state, params["steps"]), 1, name="logits")
    probability = tf.sigmoid(logits)
    if mode == estimator.ModeKeys.PREDICT:
        outputs = {"p": estimator.export.RegressionOutput(tf.cast(probability, tf.float32))}
        return estimator.EstimatorSpec(
            mode, predictions={"probability": probability}, export_outputs=outputs
        )
    targets = tf.cast(labels[:, None], tf.float64)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits)
    loss = tf.reduce_mean(losses)
    if mode == estimator.ModeKeys.EVAL:
        metrics = {
            "auc": tf.metrics.auc(labels[:, None], probability),
            "precision": tf.metrics.precision(labels[:, None], probability > 0.5),
        }
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    optimizer = replicate.TowerOptimizer(tf.train.GradientDescentOptimizer(0.5))
    gradients = optimizer.compute_gradients(loss)
    for gradient, variable in gradients:
        tf.summary.histogram(variable.op.name, gradient)
    train_op = optimizer.apply_gradients(gradients, tf.train.get_global_step())
    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows(total):
    words, lengths, labels = data.sentences(total, vocabulary=VOCABULARY)
    return {"words": words, "lengths": lengths}, labels


PROGRAM = program.Program(
    program.as_model_fn(model_fn),
    rows,
    tolerance=program.FLOAT64,
    params=(("units", 4), ("steps", 5)),
)
