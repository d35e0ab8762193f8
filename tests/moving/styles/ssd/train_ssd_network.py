"""Trains the SSD network, from a pre-trained one if there is a --checkpoint_path."""

from __future__ import absolute_import, division, print_function

import numpy as np
import shapes_dataset
import ssd_losses
import ssd_net
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib.estimator import TowerOptimizer, replicate_model_fn

tf.app.flags.DEFINE_string("model_dir", "", "Where checkpoints and events go.")
tf.app.flags.DEFINE_string("output", "", "Where predictions go.")
tf.app.flags.DEFINE_string("checkpoint_path", None, "A checkpoint to fine-tune from.")
tf.app.flags.DEFINE_string("checkpoint_exclude_scopes", "global_step", "Scopes not to restore.")
tf.app.flags.DEFINE_boolean("freeze_batch_norm", False, "Whether to normalise as it was trained.")
tf.app.flags.DEFINE_integer("num_gpus", 1, "The number of towers.")
tf.app.flags.DEFINE_integer("batch_size", 9, "The number of images of all towers.")
tf.app.flags.DEFINE_integer("max_number_of_steps", 6, "The number of training steps.")
tf.app.flags.DEFINE_float("learning_rate", 0.01, "The initial learning rate.")
tf.app.flags.DEFINE_float("negative_ratio", 3.0, "Negatives for each positive.")
tf.app.flags.DEFINE_float("gradient_clipping", 5.0, "The largest norm of each gradient.")
FLAGS = tf.app.flags.FLAGS


def get_init_fn():
    """Returns a function that restores the variables, as the trainers of slim do."""
    if FLAGS.checkpoint_path is None:
        return None
    exclusions = [scope.strip() for scope in FLAGS.checkpoint_exclude_scopes.split(",")]
    variables_to_restore = slim.get_variables_to_restore(exclude=exclusions)
    checkpoint_path = FLAGS.checkpoint_path
    if tf.gfile.IsDirectory(checkpoint_path):
        checkpoint_path = tf.train.latest_checkpoint(checkpoint_path)
    restore = slim.assign_from_checkpoint_fn(
        checkpoint_path, variables_to_restore, ignore_missing_vars=True
    )
    return lambda scaffold, session: restore(session)


def ssd_model_fn(features, labels, mode, params):
    is_training = mode == tf.estimator.ModeKeys.TRAIN
    with slim.arg_scope(ssd_net.ssd_arg_scope(is_training=is_training and not params["frozen"])):
        logits, locations, end_points = ssd_net.ssd_net(
            features["image"], shapes_dataset.NUM_CLASSES, is_training
        )
    predictions = {"probabilities": slim.softmax(logits), "locations": locations}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=predictions)

    parts = ssd_losses.ssd_losses(
        logits,
        locations,
        labels["classes"],
        labels["locations"],
        negative_ratio=params["negative_ratio"],
    )
    total_loss = tf.losses.get_total_loss()
    if mode == tf.estimator.ModeKeys.EVAL:
        names_to_values, names_to_updates = slim.metrics.aggregate_metric_map(
            {
                "accuracy": tf.metrics.accuracy(labels["classes"], tf.argmax(logits, -1)),
                "recall": tf.metrics.recall(labels["classes"] > 0, tf.argmax(logits, -1) > 0),
            }
        )
        metrics = {key: (names_to_values[key], names_to_updates[key]) for key in names_to_values}
        return tf.estimator.EstimatorSpec(mode, loss=total_loss, eval_metric_ops=metrics)

    for name, value in zip(("positives", "negatives", "locations"), parts):
        tf.summary.scalar("losses/" + name, value)
    for end_point in sorted(end_points):
        tf.summary.scalar("sparsity/" + end_point, tf.nn.zero_fraction(end_points[end_point]))
    init_fn = get_init_fn()

    global_step = tf.train.get_global_step()
    learning_rate = tf.train.piecewise_constant(
        global_step, [2, 4], [FLAGS.learning_rate * factor for factor in (1.0, 0.5, 0.1)]
    )
    tf.summary.scalar("learning_rate", learning_rate)
    optimizer = tf.train.MomentumOptimizer(learning_rate, momentum=0.9)
    if params["num_gpus"] > 1:
        optimizer = TowerOptimizer(optimizer)
    train_op = slim.learning.create_train_op(
        total_loss,
        optimizer,
        global_step=global_step,
        clip_gradient_norm=FLAGS.gradient_clipping,
        variables_to_train=tf.trainable_variables(),
    )
    return tf.estimator.EstimatorSpec(
        mode, loss=total_loss, train_op=train_op, scaffold=tf.train.Scaffold(init_fn=init_fn)
    )


def input_fn(split, num_samples, repeat):
    dataset = shapes_dataset.get_split(split, num_samples)
    return dataset.repeat(repeat).batch(FLAGS.batch_size)


def main(_):
    model_fn = ssd_model_fn
    if FLAGS.num_gpus > 1:
        model_fn = replicate_model_fn(
            ssd_model_fn,
            loss_reduction=tf.losses.Reduction.MEAN,
            devices=["/cpu:%d" % i for i in range(FLAGS.num_gpus)],
        )
    config = tf.ConfigProto(
        allow_soft_placement=True, log_device_placement=False, device_count={"CPU": FLAGS.num_gpus}
    )
    run_config = tf.estimator.RunConfig().replace(
        tf_random_seed=3, save_summary_steps=1, session_config=config
    )
    detector = tf.estimator.Estimator(
        model_fn,
        FLAGS.model_dir,
        run_config,
        params={
            "frozen": FLAGS.freeze_batch_norm,
            "num_gpus": FLAGS.num_gpus,
            "negative_ratio": FLAGS.negative_ratio,
        },
    )
    detector.train(lambda: input_fn("train", 40, None), max_steps=FLAGS.max_number_of_steps)
    detector.evaluate(lambda: input_fn("test", 20, 1))
    rows = list(detector.predict(lambda: input_fn("test", 20, 1)))
    np.savez(FLAGS.output, **{key: [row[key] for row in rows] for key in rows[0]})


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.app.run()
