"""Trains, evaluates and predicts with a TPUEstimator, on TPUs or not."""

from __future__ import absolute_import, division, print_function

import os

import numpy as np
import tensorflow as tf
import tpu_input
import tpu_model
from tensorflow.contrib.tpu.python.tpu import tpu_config, tpu_estimator

flags = tf.flags
FLAGS = flags.FLAGS
flags.DEFINE_bool("use_tpu", False, "Whether to use TPUs or CPU and GPUs.")
flags.DEFINE_string("tpu", None, "The Cloud TPU to use for training.")
flags.DEFINE_string("model_dir", None, "The output directory.")
flags.DEFINE_string("output", None, "Where predictions go.")
flags.DEFINE_string("hparams", "", "Comma separated list of name=value pairs.")
flags.DEFINE_integer("train_batch_size", 12, "Total batch size for training.")
flags.DEFINE_integer("eval_batch_size", 8, "Total batch size for eval.")
flags.DEFINE_integer("shuffle_buffer", 80, "Rows among which the next one is drawn.")
flags.DEFINE_integer("train_steps", 9, "The last step of training.")
flags.DEFINE_integer("iterations_per_loop", 3, "Steps of each loop on a TPU.")
flags.DEFINE_integer("num_gpus", 1, "The number of towers, without TPUs.")


def main(_):
    tf.logging.set_verbosity(tf.logging.ERROR)
    hparams = tpu_model.default_hparams()
    hparams.parse(FLAGS.hparams)
    hparams.set_hparam("towers", FLAGS.num_gpus)
    hparams.set_hparam("use_tpu", FLAGS.use_tpu)
    cluster = None
    if FLAGS.use_tpu and FLAGS.tpu:
        cluster = tf.contrib.cluster_resolver.TPUClusterResolver(FLAGS.tpu)
    run_config = tpu_config.RunConfig(
        cluster=cluster,
        model_dir=FLAGS.model_dir,
        tf_random_seed=13,
        save_summary_steps=1,
        session_config=tf.ConfigProto(device_count={"CPU": FLAGS.num_gpus}),
        tpu_config=tpu_config.TPUConfig(
            iterations_per_loop=FLAGS.iterations_per_loop,
            num_shards=8,
            per_host_input_for_training=tpu_config.InputPipelineConfig.PER_HOST_V2,
        ),
    )
    model_fn = tpu_model.model_fn_builder(hparams)
    if FLAGS.num_gpus > 1:
        model_fn = tf.contrib.estimator.replicate_model_fn(
            model_fn, devices=["/cpu:%d" % i for i in range(FLAGS.num_gpus)]
        )
    estimator = tpu_estimator.TPUEstimator(
        use_tpu=FLAGS.use_tpu,
        model_fn=model_fn,
        config=run_config,
        train_batch_size=FLAGS.train_batch_size,
        eval_batch_size=FLAGS.eval_batch_size,
        predict_batch_size=FLAGS.eval_batch_size,
        params={"host_dir": os.path.join(FLAGS.model_dir, "host")},
    )
    estimator.train(
        tpu_input.input_fn_builder(80, 1, FLAGS.shuffle_buffer), max_steps=FLAGS.train_steps
    )
    evaluation = tpu_input.input_fn_builder(40, 2)
    estimator.evaluate(evaluation, steps=5)
    rows = list(estimator.predict(evaluation))
    np.savez(FLAGS.output, **{key: [row[key] for row in rows] for key in rows[0]})


if __name__ == "__main__":
    flags.mark_flag_as_required("model_dir")
    tf.app.run()
