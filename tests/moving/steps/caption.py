"""A captioning model as it ran on one device with TensorFlow 1.12; docs/moving.md moves it.

python caption.py MODEL_DIR STEPS
"""

import re
import sys

import numpy as np
import tensorflow as tf
from tensorflow.contrib.layers import l2_regularizer, xavier_initializer

HPARAMS = tf.contrib.training.HParams(
    batch_size=8, vocab_size=13, embedding_size=6, units=8, rate=0.2, clip_norm=0.5, decay=1e-3
)


def tower():
    """Returns the index of the tower that is being built, from its name scope."""
    found = re.match(r"tower_(\d+)", tf.get_default_graph().get_name_scope())
    return int(found.group(1)) if found else 0


def words_of(features, params):
    """Returns the logits of each next word, [batch, time, vocabulary]."""
    embedding = tf.get_variable(
        "embedding",
        [params.vocab_size, params.embedding_size],
        tf.float64,
        xavier_initializer(seed=1, dtype=tf.float64),
    )
    cell = tf.contrib.rnn.GRUCell(params.units, kernel_initializer=xavier_initializer(seed=2))
    state = cell.zero_state(params.batch_size, tf.float64)
    state += tf.layers.dense(
        features["image"], params.units, tf.tanh, kernel_initializer=xavier_initializer(seed=3)
    )
    inputs = tf.nn.embedding_lookup(embedding, features["words"])
    outputs, state = tf.nn.dynamic_rnn(cell, inputs, features["length"], state)
    size = outputs.shape[2].value
    flat = tf.reshape(outputs, [-1, size])
    logits = tf.layers.dense(
        flat,
        params.vocab_size,
        kernel_initializer=xavier_initializer(seed=4),
        kernel_regularizer=l2_regularizer(params.decay),
    )
    time = tf.shape(features["words"])[1]
    return tf.reshape(logits, [-1, time, params.vocab_size]), state


def model_fn(features, labels, mode, params):
    logits, state = words_of(features, params)
    if mode == tf.estimator.ModeKeys.PREDICT:
        predictions = {"first_word": tf.nn.softmax(logits[:, 0])}
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    mask = tf.sequence_mask(features["length"], tf.shape(labels)[1], dtype=tf.float64)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits) * mask
    word_loss = tf.reduce_sum(losses) / tf.reduce_sum(mask)
    state_loss = tf.reduce_sum(state**2) / params.batch_size
    loss = word_loss + 0.1 * state_loss + tf.losses.get_regularization_loss()
    if tower() == 0:
        tf.summary.scalar("perplexity", tf.exp(word_loss))

    optimizer = tf.train.AdagradOptimizer(params.rate)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, _ = tf.clip_by_global_norm(gradients, params.clip_norm)
    train_op = optimizer.apply_gradients(zip(gradients, variables), tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    random = np.random.RandomState(0)
    size = 12 * HPARAMS.batch_size
    lengths = random.randint(1, 7, size).astype(np.int32)
    words = random.randint(1, HPARAMS.vocab_size, (size, 7)) * (np.arange(7) <= lengths[:, None])
    image = np.eye(HPARAMS.vocab_size)[words[:, 1]] + random.normal(0.0, 0.1, (size, 1))
    features = {"image": image, "words": words[:, :-1], "length": lengths}
    dataset = tf.data.Dataset.from_tensor_slices((features, words[:, 1:]))
    return dataset.batch(HPARAMS.batch_size)


def main(model_dir, steps):
    estimator = tf.estimator.Estimator(
        model_fn,
        model_dir,
        tf.estimator.RunConfig(
            save_summary_steps=1, session_config=tf.ConfigProto(device_count={"CPU": 2})
        ),
        HPARAMS,
    )
    estimator.train(input_fn, max_steps=int(steps))


if __name__ == "__main__":
    main(*sys.argv[1:])
