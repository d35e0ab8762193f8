"""The TPU-style program with what moving it takes; for `scan`, and not run.

A comment says after `trap:`, in words, which rules are to find its line, and after `no trap:` why
none is. Changes that a codebase needs once, such as `compat install`, have no mark.
"""

import tensorflow as tf  # trap: tensorflow 1
import tensorflow.compat.v2 as tf2
from tensorflow.contrib.tpu.python.tpu import tpu_estimator

HPARAMS = tf.contrib.training.HParams(rate=0.1)  # trap: contrib name


def model_fn(features, labels, mode, params):
    size = params["batch_size"]
    net = tf.reshape(features["x"], [size, -1])
    logits = tf.keras.layers.Dense(3)(net)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = tf2.keras.optimizers.Adam(HPARAMS.rate)  # trap: keras optimizer
    old = tf.keras.optimizers.Adam(HPARAMS.rate)  # no trap: version 1's is the legacy one
    del old
    train_op = optimizer.get_updates(loss, tf.trainable_variables())
    return tpu_estimator.TPUEstimatorSpec(  # trap: contrib name
        mode=mode, loss=loss, train_op=train_op
    )


def main(run_config, input_fn):
    estimator = tpu_estimator.TPUEstimator(  # trap: contrib name
        model_fn,  # trap: replicate model fn
        config=run_config,
        use_tpu=False,
        train_batch_size=32,
    )
    estimator.train(input_fn)
