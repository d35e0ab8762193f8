"""The TPU-style program with what towers stumble over; for `scan`, and not run.

A comment `# trap: ...` says in words what rule is to find its line, `# no trap: ...` why none is.
"""

import tensorflow as tf  # trap: tensorflow 1
from tensorflow.contrib.tpu.python.tpu import tpu_estimator  # trap: contrib name

HPARAMS = tf.contrib.training.HParams(rate=0.1)  # trap: contrib name


def model_fn(features, labels, mode, params):
    size = params["batch_size"]  # no trap: TPUEstimator's is the size of the shard
    net = tf.reshape(features["x"], [size, -1])
    logits = tf.keras.layers.Dense(3)(net)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = tf.keras.optimizers.Adam(HPARAMS.rate)  # trap: keras optimizer
    old = tf.train.AdamOptimizer(HPARAMS.rate)  # no trap: TensorFlow's own
    del old
    train_op = optimizer.get_updates(loss, tf.trainable_variables())
    return tpu_estimator.TPUEstimatorSpec(  # trap: contrib name
        mode=mode, loss=loss, train_op=train_op
    )


def main(run_config, input_fn):
    estimator = tpu_estimator.TPUEstimator(  # trap: contrib name, replicate model fn
        model_fn, config=run_config, use_tpu=False, train_batch_size=32
    )
    estimator.train(input_fn)
