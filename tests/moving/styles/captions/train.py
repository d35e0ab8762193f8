"""Trains the captioning model.

python train.py --model_dir=DIR --output=FILE --num_gpus=2
"""

from __future__ import absolute_import, division, print_function

import argparse

import configuration
import inputs
import numpy as np
import tensorflow as tf
from show_and_tell_model import ShowAndTellModel
from tensorflow.contrib import estimator as contrib_estimator

parser = argparse.ArgumentParser()
parser.add_argument("--model_dir", required=True)
parser.add_argument("--output", required=True)
parser.add_argument("--batch_size", type=int, default=7)
parser.add_argument("--max_steps", type=int, default=9)
parser.add_argument("--num_gpus", type=int, default=1)


def model_fn(features, labels, mode, params):
    model = ShowAndTellModel(params["model"], params["training"], mode)
    model.build_model(features, labels)
    words = tf.argmax(model.logits, 2)
    if mode == tf.contrib.learn.ModeKeys.INFER:
        return tf.estimator.EstimatorSpec(
            mode,
            predictions={
                "words": tf.identity(words[:, 0]),
                "probabilities": tf.nn.softmax(model.logits)[:, 0],
            },
        )
    if mode == tf.contrib.learn.ModeKeys.EVAL:
        losses, weights = model.target_cross_entropy_losses, model.target_weights
        return tf.estimator.EstimatorSpec(
            mode,
            loss=model.total_loss,
            eval_metric_ops={
                "per_word": tf.metrics.mean(losses, weights),
                "accuracy": tf.metrics.accuracy(labels, words, weights),
            },
        )

    training = params["training"]
    learning_rate = tf.train.inverse_time_decay(
        tf.constant(training.initial_learning_rate, tf.float64),
        tf.train.get_global_step(),
        decay_steps=4,
        decay_rate=0.5,
    )
    optimizer = tf.train.AdamOptimizer(learning_rate)
    if params["num_gpus"] > 1:
        optimizer = contrib_estimator.TowerOptimizer(optimizer)
    tvars = tf.trainable_variables()
    grads, norm = tf.clip_by_global_norm(
        tf.gradients(model.total_loss, tvars), training.clip_gradients
    )
    tf.summary.scalar("global_norm", norm)
    train_op = optimizer.apply_gradients(zip(grads, tvars), global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=model.total_loss, train_op=train_op)


def main(args):
    model_config = configuration.ModelConfig()
    function = model_fn
    if args.num_gpus > 1:
        function = contrib_estimator.replicate_model_fn(
            model_fn, devices=["/cpu:{}".format(i) for i in range(args.num_gpus)]
        )
    run_config = tf.estimator.RunConfig().replace(
        tf_random_seed=11,
        save_summary_steps=1,
        session_config=tf.ConfigProto(device_count={"CPU": args.num_gpus}),
    )
    params = {
        "model": model_config,
        "training": configuration.TrainingConfig(),
        "num_gpus": args.num_gpus,
    }
    captioner = tf.estimator.Estimator(function, args.model_dir, run_config, params)
    train_spec = tf.estimator.TrainSpec(
        lambda: inputs.batches(60, 1, args.batch_size, model_config).repeat(),
        max_steps=args.max_steps,
    )
    eval_spec = tf.estimator.EvalSpec(
        lambda: inputs.batches(23, 2, args.batch_size, model_config), steps=None
    )
    tf.estimator.train_and_evaluate(captioner, train_spec, eval_spec)
    rows = list(captioner.predict(eval_spec.input_fn))
    np.savez(args.output, **{key: [row[key] for row in rows] for key in rows[0]})


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main(parser.parse_args())
