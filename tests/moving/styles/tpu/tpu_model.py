"""The model_fn of TPUEstimator: embeddings, dense layers, host calls and metrics."""

from __future__ import absolute_import, division, print_function

import tensorflow as tf
import tpu_input
from tensorflow.contrib import tpu as contrib_tpu


def default_hparams():
    return tf.contrib.training.HParams(
        learning_rate=0.05,
        warmup_steps=2,
        hidden_sizes=[12, 8],
        embedding_size=4,
        optimizer="adagrad",
        weight_decay=1e-3,
        label_smoothing=0.1,
        towers=1,
        use_tpu=False,
    )


def network(features, hparams):
    with tf.variable_scope("embeddings", reuse=tf.AUTO_REUSE):
        table = tf.get_variable(
            "word_embeddings",
            [10, hparams.embedding_size],
            initializer=tf.truncated_normal_initializer(stddev=0.2, seed=8),
        )
    words = tf.nn.embedding_lookup(table, features["ids"])
    # TPUs know the size of their batch.
    batch_size = features["ids"].shape[0].value
    words = tf.reshape(words, [batch_size, 2 * hparams.embedding_size])
    net = tf.concat([features["x"], words], axis=1)
    for i, size in enumerate(hparams.hidden_sizes):
        net = tf.layers.dense(
            net,
            size,
            activation=tf.nn.tanh,
            kernel_initializer=tf.contrib.layers.variance_scaling_initializer(seed=i),
            name="hidden_%d" % i,
        )
    return tf.layers.dense(
        net,
        tpu_input.NUM_LABELS,
        kernel_initializer=tf.glorot_uniform_initializer(seed=9),
        name="logits",
    )


def learning_rate_schedule(hparams, global_step):
    step = tf.cast(global_step, tf.float32)
    warmup = hparams.learning_rate * (step + 1.0) / hparams.warmup_steps
    decayed = tf.train.polynomial_decay(
        hparams.learning_rate, global_step, decay_steps=20, end_learning_rate=0.0
    )
    return tf.where(global_step < hparams.warmup_steps, warmup, decayed)


def make_optimizer(hparams, learning_rate):
    optimizers = {
        "adagrad": lambda: tf.train.AdagradOptimizer(learning_rate),
        "momentum": lambda: tf.train.MomentumOptimizer(learning_rate, 0.9),
    }
    optimizer = optimizers[hparams.optimizer]()
    if hparams.use_tpu or hparams.towers > 1:
        optimizer = contrib_tpu.CrossShardOptimizer(optimizer)
    if hparams.towers > 1:
        optimizer = tf.contrib.estimator.TowerOptimizer(optimizer)
    return optimizer


def metric_fn(labels, logits):
    predictions = tf.argmax(logits, axis=1, output_type=tf.int32)
    return {
        "eval_accuracy": tf.metrics.accuracy(labels, predictions),
        "eval_in_top_2": tf.metrics.mean(tf.cast(tf.nn.in_top_k(logits, labels, 2), tf.float32)),
    }


def model_fn_builder(hparams):
    """Returns `model_fn` closure for TPUEstimator."""

    def model_fn(features, labels, mode, params):
        logits = network(features, hparams)
        if mode == tf.estimator.ModeKeys.PREDICT:
            predictions = {"probabilities": tf.nn.softmax(logits)}
            return contrib_tpu.TPUEstimatorSpec(mode=mode, predictions=predictions)

        loss = tf.losses.softmax_cross_entropy(
            logits=logits,
            onehot_labels=tf.one_hot(labels, tpu_input.NUM_LABELS),
            label_smoothing=hparams.label_smoothing,
        )
        loss += hparams.weight_decay * tf.add_n(
            [tf.nn.l2_loss(v) for v in tf.trainable_variables() if "bias" not in v.name]
        )
        if mode == tf.estimator.ModeKeys.EVAL:
            return contrib_tpu.TPUEstimatorSpec(
                mode=mode, loss=loss, eval_metrics=(metric_fn, [labels, logits])
            )

        global_step = tf.train.get_global_step()
        learning_rate = learning_rate_schedule(hparams, global_step)
        optimizer = make_optimizer(hparams, learning_rate)
        # The host gets values of this step, before the variables change.
        of_host = [tf.reshape(t, [1]) for t in (global_step + 0, loss, learning_rate)]
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(updates + of_host):
            train_op = optimizer.minimize(loss, global_step)

        def host_call_fn(global_step, loss, learning_rate):
            """Writes scalars on the host, where a TPU cannot."""
            global_step = global_step[0]
            with tf.contrib.summary.create_file_writer(
                params["host_dir"], max_queue=1
            ).as_default(), tf.contrib.summary.always_record_summaries():
                tf.contrib.summary.scalar("host_loss", loss[0], step=global_step)
                tf.contrib.summary.scalar("host_rate", learning_rate[0], step=global_step)
                return tf.contrib.summary.all_summary_ops()

        return contrib_tpu.TPUEstimatorSpec(
            mode=mode, loss=loss, train_op=train_op, host_call=(host_call_fn, of_host)
        )

    return model_fn
