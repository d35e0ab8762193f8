"""Quickstart: trains one model on two towers and on one device, and compares them step by step.

    python -m examples.digits

The data are scikit-learn's 1,797 handwritten digits. Both runs start from the same weights and see
the same batches in the same order, so at every step their loss, accuracy and weights must agree.
The exit status is 0 only if they do, see `comparison.TOLERANCE`.

Towers take two lines: `replicate.TowerOptimizer` in `model_fn`, and `replicate.replicate_model_fn`
in `make_estimator`. The comparison is in `comparison.py`.
"""

import argparse
import dataclasses
import json
import logging
import pathlib
import sys
import tempfile
import warnings
from typing import Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import replicate
from examples.comparison import TOLERANCE, Run, agree, compare, plot, report
from examples.runs import arguments
from replicate import estimator
from replicate.hooks import ProgressHook

TRAINING_ROWS = 1347  # Three quarters of the data, as scikit-learn has it.


@dataclasses.dataclass(frozen=True)
class Config:
    """All that a comparison depends on."""

    devices: Tuple[str, ...] = ("/cpu:0", "/cpu:1")  # one tower on each
    steps: int = 500
    batch_size: int = 125  # rows of the whole batch; odd, so that two shards are uneven
    dtype: str = "float32"
    hidden_units: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    seed: int = 1  # of the weights, of the order of the rows, and of the choice of test rows


def load(config):
    """Returns images and labels for training, then those for testing.

    Images are `[n, 64]`, of `config.dtype` and in [0, 1]; labels are int32 digits [n].
    """
    digits = load_digits()
    train_images, test_images, train_labels, test_labels = train_test_split(
        (digits.data / 16).astype(config.dtype),
        digits.target.astype(np.int32),
        random_state=config.seed,
    )
    return (train_images, train_labels), (test_images, test_labels)


def make_datasets(config):
    """Returns the input functions for training and testing.

    Features are `{"image": images}`; images and labels are as `load` returns them.
    """
    (train_images, train_labels), (test_images, test_labels) = load(config)

    def train_input_fn():
        rows = tf.data.Dataset.from_tensor_slices(({"image": train_images}, train_labels))
        rows = rows.shuffle(len(train_labels), seed=config.seed)
        return rows.batch(config.batch_size).repeat()  # each epoch ends with a smaller batch

    def test_input_fn():
        rows = tf.data.Dataset.from_tensor_slices(({"image": test_images}, test_labels))
        return rows.batch(config.batch_size)

    return train_input_fn, test_input_fn


def model_fn(features, labels, mode, params):
    """A network with one hidden layer, written as for one device."""
    # Named, because on TF 2 the default of `tf.layers` pays no heed to the seed in `RunConfig`.
    glorot = tf.glorot_uniform_initializer()
    hidden = tf.layers.dense(
        features["image"], params["hidden_units"], tf.nn.tanh, kernel_initializer=glorot
    )
    logits = tf.layers.dense(hidden, 10, kernel_initializer=glorot)
    digits = tf.argmax(logits, axis=1, output_type=tf.int32)

    if mode == estimator.ModeKeys.PREDICT:
        predictions = {"digit": digits, "probabilities": tf.nn.softmax(logits)}
        return estimator.EstimatorSpec(mode, predictions=predictions)

    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)

    if mode == estimator.ModeKeys.EVAL:
        metrics = {"accuracy": tf.metrics.accuracy(labels, digits)}
        return estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    optimizer = tf.train.MomentumOptimizer(params["learning_rate"], params["momentum"])
    optimizer = replicate.TowerOptimizer(optimizer)  # the first of the two lines
    train_op = optimizer.minimize(loss, tf.train.get_global_step())

    # For the comparison only: a tower has its own rows; their mean over towers is that of all.
    accuracy = tf.reduce_mean(tf.cast(tf.equal(labels, digits), tf.float64))
    tf.identity(replicate.cross_tower_mean(accuracy), name="batch_accuracy")

    return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def make_estimator(model_fn, params, seed, devices, model_dir):
    """Returns an Estimator: with one tower on each of `devices`, or without towers if None."""
    run_config = estimator.RunConfig(
        model_dir,
        tf_random_seed=seed,  # gives all runs the same initial weights
        log_step_count_steps=None,  # the progress bar tells the speed
    )
    if devices is None:
        return estimator.Estimator(model_fn, config=run_config, params=params)

    replicated_fn = replicate.replicate_model_fn(model_fn, devices=devices)  # the second line
    # Makes several devices of one CPU. GPUs exist without it.
    run_config = run_config.replace(session_config=replicate.session_config(devices))
    return estimator.Estimator(replicated_fn, config=run_config, params=params)


def train(config, devices, model_dir, name):
    """Trains on `devices` (see `make_estimator`), then evaluates and predicts; returns a `Run`."""
    train_input_fn, test_input_fn = make_datasets(config)
    params = {
        "hidden_units": config.hidden_units,
        "learning_rate": config.learning_rate,
        "momentum": config.momentum,
    }
    digits = make_estimator(model_fn, params, config.seed, devices, model_dir)
    recorder = Recorder()
    progress = ProgressHook(config.steps, config.batch_size, description=name)
    digits.train(train_input_fn, max_steps=config.steps, hooks=[recorder, progress])
    return Run(
        loss=np.stack(recorder.loss),
        accuracy=np.stack(recorder.accuracy),
        weights={
            name: np.stack([step[name] for step in recorder.weights])
            for name in recorder.weights[0]
        },
        metrics=digits.evaluate(test_input_fn),
        probabilities=np.stack([row["probabilities"] for row in digits.predict(test_input_fn)]),
    )


class Recorder(tf.train.SessionRunHook):
    """Keeps the loss, the accuracy and all weights of every step."""

    def __init__(self):
        self.loss, self.accuracy, self.weights = [], [], []

    def begin(self):
        """Finds what to keep."""
        self._of_batch = {
            "loss": tf.losses.get_losses()[-1],  # where the Estimator puts the loss it trains on
            "accuracy": tf.get_default_graph().get_tensor_by_name("batch_accuracy:0"),
        }
        self._weights = {variable.op.name: variable for variable in tf.trainable_variables()}

    def before_run(self, run_context):
        """Asks for loss and accuracy, which belong to the batch of this step."""
        return tf.train.SessionRunArgs(self._of_batch)

    def after_run(self, run_context, run_values):
        """Keeps them, and the weights that the step left."""
        self.loss.append(run_values.results["loss"])
        self.accuracy.append(run_values.results["accuracy"])
        self.weights.append(run_context.session.run(self._weights))


def run(config, out, model_dir):
    """Trains on towers and on one device and reports; returns whether the two agree."""
    name = f"{len(config.devices)} towers"
    print(f"{name} on {', '.join(config.devices)} and one device: {config.steps} steps each")
    towers = train(config, config.devices, str(model_dir / "towers"), name)
    one = train(config, None, str(model_dir / "one_device"), "one device")
    deviations = compare(towers, one)
    print(report(config, towers, one, deviations))

    record = {
        "config": dataclasses.asdict(config),
        "deviations": {quantity: float(value.max()) for quantity, value in deviations.items()},
    }
    (out / "digits.json").write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    plot(config, towers, one, deviations, out / "digits.png")
    print(f"Both loss curves: {out / 'digits.png'}")
    return agree(config, deviations)


def make_parser(description, default, out):
    """Returns a parser of the flags that the examples on digits share, and their defaults."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--devices", nargs="+", default=default.devices, help="one tower on each")
    steps, rows = arguments.at_least(1), arguments.at_least(1)
    parser.add_argument("--steps", type=steps, default=default.steps)
    parser.add_argument("--batch_size", type=rows, default=default.batch_size, help="of all towers")
    parser.add_argument("--out", type=pathlib.Path, default=out, help="for the plot")
    return parser


def check(parser, args):
    """Ends with an error of the parser if nothing can be trained as the flags say."""
    arguments.check_devices(parser, args.devices)
    if not len(args.devices) <= args.batch_size <= TRAINING_ROWS:
        parser.error(
            f"--batch_size must have a row for each of {len(args.devices)} towers, and at most all "
            f"{TRAINING_ROWS:,}, but is {args.batch_size:,}."
        )
    arguments.make_directory(parser, "--out", args.out)


def main(argv=None):
    """Parses the command line; returns the exit status."""
    default = Config()
    parser = make_parser(__doc__, default, out="runs/digits")
    parser.add_argument("--dtype", choices=sorted(TOLERANCE), default=default.dtype)
    parser.add_argument("--model_dir", type=pathlib.Path, help="for the checkpoints, if to be kept")
    args = parser.parse_args(argv)
    check(parser, args)
    if args.model_dir and any(
        arguments.make_directory(parser, "--model_dir", args.model_dir).iterdir()
    ):
        parser.error(
            f"--model_dir must be empty, for both runs to start from step 0, but {args.model_dir} "
            "is not. Name a new directory."
        )
    config = Config(
        devices=tuple(args.devices),
        steps=args.steps,
        batch_size=args.batch_size,
        dtype=args.dtype,
    )
    with tempfile.TemporaryDirectory() as scratch:
        return 0 if run(config, args.out, args.model_dir or pathlib.Path(scratch)) else 1


def quiet_tensorflow():
    """Keeps TensorFlow's log to what `replicate` says, and why it makes a new session.

    TensorFlow 2 announces the deprecation of every part of an Estimator, at length.
    """
    warnings.filterwarnings("ignore", message=r"`tf\.layers", category=UserWarning)
    log = tf.get_logger()
    log.setLevel(logging.INFO)
    log.addFilter(lambda record: record.getMessage().startswith(("replicate:", "An error")))


if __name__ == "__main__":
    quiet_tensorflow()
    sys.exit(main())
