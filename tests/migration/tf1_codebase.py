"""A codebase of TensorFlow 1.12, as people run it on 1.15 today; it is not to be modernised.

`test_tf1.py` runs it as it is on one device, and over two towers with one import changed.
"""

import argparse

import numpy as np
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib import layers
from tensorflow.contrib.estimator import TowerOptimizer, replicate_model_fn
from tensorflow.contrib.training import HParams

FLAGS = argparse.ArgumentParser()
FLAGS.add_argument("--num_towers", type=int, default=1)
FLAGS.add_argument("--model_dir")
FLAGS.add_argument("--out")


def network(features, is_training):
    with slim.arg_scope(
        [slim.fully_connected],
        activation_fn=tf.nn.elu,
        weights_initializer=layers.xavier_initializer(seed=1),
        weights_regularizer=layers.l2_regularizer(0.001),
    ):
        table = tf.contrib.lookup.index_table_from_tensor(tf.constant(["a", "b", "c"]))
        words = tf.one_hot(table.lookup(features["word"]), 3, dtype=tf.float64)
        net = slim.stack(tf.concat([features["x"], words], 1), slim.fully_connected, [16, 8])
        net = slim.dropout(net, keep_prob=1.0, is_training=is_training)
        return slim.fully_connected(net, 3, activation_fn=None, scope="logits")


def model_fn(features, labels, mode, params):
    logits = network(features, mode == tf.estimator.ModeKeys.TRAIN)
    predictions = {"class": tf.argmax(logits, 1), "probability": tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    tf.losses.sparse_softmax_cross_entropy(labels, logits)
    loss = tf.losses.get_total_loss()
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            eval_metric_ops={
                "accuracy": tf.metrics.accuracy(labels, predictions["class"]),
                "recall": tf.contrib.metrics.streaming_sparse_recall_at_k(
                    logits, tf.expand_dims(labels, 1), 2
                ),
            },
        )

    rate = tf.train.exponential_decay(
        params.learning_rate, tf.train.get_global_step(), 5, params.decay, staircase=True
    )
    optimizer = tf.train.MomentumOptimizer(rate, 0.9)
    if params.num_towers > 1:
        optimizer = TowerOptimizer(optimizer)
    train_op = slim.learning.create_train_op(loss, optimizer, clip_gradient_norm=0.5)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    random = np.random.RandomState(0)
    x = random.normal(size=(61, 5))
    words = random.choice(["a", "b", "c"], 61)
    labels = np.argmax(x[:, :3], axis=1).astype(np.int64)
    return tf.data.Dataset.from_tensor_slices(({"x": x, "word": words}, labels)).batch(10)


def main(flags):
    params = HParams(learning_rate=0.1, decay=0.5, num_towers=flags.num_towers)
    function = model_fn
    if flags.num_towers > 1:
        function = replicate_model_fn(
            model_fn,
            tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
            devices=["/cpu:" + str(i) for i in range(flags.num_towers)],
        )
    session_config = tf.ConfigProto(device_count={"CPU": flags.num_towers})
    estimator = tf.estimator.Estimator(
        function,
        flags.model_dir,
        tf.estimator.RunConfig(session_config=session_config, tf_random_seed=1),
        params,
    )
    hooks = [
        tf.estimator.experimental.InMemoryEvaluatorHook(estimator, input_fn, every_n_iter=5),
        tf.estimator.experimental.stop_if_no_decrease_hook(
            estimator, "loss", 1000, run_every_secs=None, run_every_steps=5
        ),
        tf.train.StepCounterHook(every_n_steps=5),
    ]
    estimator.train(lambda: input_fn().repeat(2), hooks=hooks)
    found = dict(estimator.evaluate(input_fn))
    found.update(
        (name, estimator.get_variable_value(name)) for name in estimator.get_variable_names()
    )
    found["rows"] = [row["probability"] for row in estimator.predict(input_fn)]
    np.savez(flags.out, **found)


if __name__ == "__main__":
    main(FLAGS.parse_args())
