"""The captioning program with what moving it takes; for `scan`, and not run.

A comment says after `trap:`, in words, which rules are to find its line, and after `no trap:` why
none is. Changes that a codebase needs once, such as `compat install`, have no mark.
"""

import tensorflow as tf  # trap: tensorflow 1
from tensorflow.contrib import seq2seq


def model_fn(features, labels, mode, params):
    embedding = tf.get_variable("embedding", [params["vocab_size"], 8])
    inputs = tf.nn.embedding_lookup(embedding, features["words"])
    cell = tf.contrib.rnn.BasicLSTMCell(8)  # trap: contrib name
    state = cell.zero_state(params["batch_size"], tf.float32)  # no trap: one device's
    outputs, _ = tf.nn.dynamic_rnn(cell, inputs, features["length"], state)
    flat = tf.reshape(outputs, [params["batch_size"], -1])
    rows = tf.shape(inputs)[0]
    again = tf.reshape(flat, [rows, -1, 8])
    logits = tf.layers.dense(again, params["vocab_size"])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"words": tf.argmax(logits, 2)})

    mask = tf.sequence_mask(features["length"], dtype=tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    words = tf.reduce_sum(losses * mask) / params["batch_size"]
    chosen = tf.reduce_mean(tf.boolean_mask(losses, mask > 0))
    whole = tf.reduce_mean(losses)
    loss = words + chosen + whole

    optimizer = tf.train.AdamOptimizer(1e-3)
    global_step = tf.train.get_global_step()
    pairs = optimizer.compute_gradients(loss)
    train_op = tf.cond(
        tf.is_finite(loss),
        lambda: optimizer.apply_gradients(pairs, global_step),  # no trap: as on one device
        lambda: tf.no_op(),
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def attention(memory, units):
    return seq2seq.BahdanauAttention(units, memory)  # trap: contrib none


def main(model_dir, input_fn):
    params = {"batch_size": 32, "vocab_size": 1000}
    estimator = tf.estimator.Estimator(
        model_fn,  # trap: replicate model fn
        model_dir,
        params=params,
    )
    estimator.train(input_fn)
