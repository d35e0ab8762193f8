"""Convolutional Neural Network Estimator for MNIST, built with tf.layers."""

from __future__ import absolute_import, division, print_function

import argparse
import sys

import dataset
import numpy as np
import tensorflow as tf
from tensorflow.contrib.estimator import TowerOptimizer, replicate_model_fn

FLAGS = None


class LearningRateHook(tf.train.SessionRunHook):
    """Prints the learning rate, as the tutorials' logger hooks do."""

    def begin(self):
        self._rates = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.get_default_graph().get_tensor_by_name("decayed_rate:0"))

    def after_run(self, run_context, run_values):
        self._rates.append(run_values.results)

    def end(self, session):
        print("learning rate fell from %.4f to %.4f" % (self._rates[0], self._rates[-1]))


def mnist_model(images, training):
    initializer = tf.truncated_normal_initializer(stddev=0.1, seed=3)
    net = tf.reshape(images, [-1, dataset.IMAGE_SIZE, dataset.IMAGE_SIZE, 1])
    net = tf.layers.conv2d(
        net, 8, [3, 3], padding="same", activation=tf.nn.relu, kernel_initializer=initializer
    )
    net = tf.layers.max_pooling2d(net, pool_size=[2, 2], strides=2)
    net = tf.layers.conv2d(
        net, 16, [3, 3], padding="same", activation=tf.nn.relu, kernel_initializer=initializer
    )
    net = tf.layers.max_pooling2d(net, pool_size=[2, 2], strides=2)
    net = tf.layers.flatten(net)
    net = tf.layers.dense(
        net,
        32,
        activation=tf.nn.relu,
        kernel_initializer=initializer,
        kernel_regularizer=tf.contrib.layers.l2_regularizer(1e-3),
    )
    net = tf.layers.dropout(net, rate=0.0, training=training)
    return tf.layers.dense(net, dataset.NUM_CLASSES, kernel_initializer=initializer, name="logits")


def model_fn(features, labels, mode, params):
    """The model_fn argument for creating an Estimator."""
    logits = mnist_model(features["image"], mode == tf.estimator.ModeKeys.TRAIN)
    predictions = {
        "classes": tf.argmax(logits, axis=1),
        "probabilities": tf.nn.softmax(logits, name="softmax_tensor"),
    }
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(
            mode=mode,
            predictions=predictions,
            export_outputs={"classify": tf.estimator.export.PredictOutput(predictions)},
        )

    cross_entropy = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    loss = cross_entropy + tf.losses.get_regularization_loss()
    accuracy = tf.metrics.accuracy(labels=labels, predictions=predictions["classes"])

    if mode == tf.estimator.ModeKeys.EVAL:
        one_hot = tf.one_hot(labels, dataset.NUM_CLASSES)
        return tf.estimator.EstimatorSpec(
            mode=mode,
            loss=loss,
            eval_metric_ops={
                "accuracy": accuracy,
                "mean_per_class": tf.metrics.mean_per_class_accuracy(
                    labels, predictions["classes"], dataset.NUM_CLASSES
                ),
                "auc": tf.metrics.auc(one_hot, predictions["probabilities"]),
                "cross_entropy": tf.metrics.mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
                ),
            },
        )

    learning_rate = tf.train.exponential_decay(
        params["learning_rate"],
        tf.train.get_or_create_global_step(),
        decay_steps=3,
        decay_rate=0.7,
        staircase=True,
    )
    tf.identity(learning_rate, name="decayed_rate")
    tf.summary.scalar("learning_rate", learning_rate)
    tf.summary.histogram("logits", logits)
    optimizer = tf.train.MomentumOptimizer(learning_rate, 0.9)
    if params["num_gpus"] > 1:
        optimizer = TowerOptimizer(optimizer)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(
        mode=mode, loss=loss, train_op=train_op, training_hooks=[LearningRateHook()]
    )


def input_fn(images, epochs=1):
    images = images.map(lambda image, label: ({"image": image}, label), num_parallel_calls=2)
    return images.repeat(epochs).batch(FLAGS.batch_size).prefetch(1)


def main(_):
    model_function = model_fn
    if FLAGS.num_gpus > 1:
        model_function = replicate_model_fn(
            model_fn,
            loss_reduction=tf.losses.Reduction.MEAN,
            devices=["/cpu:%d" % i for i in range(FLAGS.num_gpus)],
        )
    mnist_classifier = tf.estimator.Estimator(
        model_fn=model_function,
        model_dir=FLAGS.model_dir,
        config=tf.estimator.RunConfig(
            tf_random_seed=7,
            save_summary_steps=1,
            session_config=tf.ConfigProto(device_count={"CPU": FLAGS.num_gpus}),
        ),
        params={"learning_rate": 0.1, "num_gpus": FLAGS.num_gpus},
    )
    logging_hook = tf.train.LoggingTensorHook(
        tensors={"probabilities": "softmax_tensor"}, every_n_iter=50
    )
    mnist_classifier.train(
        lambda: input_fn(dataset.train(), epochs=2), hooks=[logging_hook], max_steps=FLAGS.max_steps
    )
    results = mnist_classifier.evaluate(lambda: input_fn(dataset.test()))
    print("Evaluation results:\n\t%s" % results)
    rows = list(mnist_classifier.predict(lambda: input_fn(dataset.test())))
    np.savez(FLAGS.output, **{key: [row[key] for row in rows] for key in rows[0]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--output", required=True, help="Where predictions go, a file of NumPy.")
    parser.add_argument("--batch_size", type=int, default=15)
    parser.add_argument("--max_steps", type=int, default=9)
    parser.add_argument("--num_gpus", type=int, default=1)
    tf.logging.set_verbosity(tf.logging.ERROR)
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
