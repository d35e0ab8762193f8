"""Trains classifiers of images, and measures how accurate they are, with the Estimators of a run.

*Metrics* are a dict that can be written as JSON, to which programs add what tells the network:

    accuracy             share of images whose most probable class is theirs, in [0, 1]
    cross_entropy        mean over images, in nats, without label smoothing
    num_images, split    the number of these images, and which they are
    global_step          of the checkpoint
"""

import contextlib
import math
import time

import tensorflow.compat.v1 as tf

from examples import data as data_lib
from examples.data import tpu
from examples.runs import checkpoints, cluster, engines, settings_file
from examples.runs.errors import UserError
from examples.runs.stop_on_signal import StopOnSignal
from replicate.hooks import ProgressHook

METRICS = "metrics.json"


def train_and_evaluate(params, train, evaluate):
    """Trains a network to the end, then evaluates it once; leaves the metrics as metrics.json.

    Args:
        params: Dict of settings.
        train: Function of `params` that returns whether training is at its end.
        evaluate: Function of `params` that returns metrics.

    Returns:
        Metrics, with `train_seconds`: how long training took in this process.

    Raises:
        KeyboardInterrupt: If training was stopped by a signal; it is saved.
    """
    start = time.perf_counter()
    if not train(params):
        raise KeyboardInterrupt
    seconds = time.perf_counter() - start
    metrics = {**evaluate(params), "train_seconds": round(seconds, 2)}
    settings_file.write_json(metrics, params["checkpoint_dir"], METRICS)
    return metrics


@contextlib.contextmanager
def naming_lost_loss(flag, value):
    """Context in which a loss that is no number becomes a `UserError` that names a flag to lower.

    Args:
        flag: Its name, such as 'learning_rate'.
        value: What it is, a str.
    """
    try:
        yield
    except tf.train.NanLossDuringTrainingError as error:
        raise UserError(
            f"The loss is no longer a number. Lower --{flag}, {value}, and name a new "
            "--checkpoint_dir."
        ) from error


def train(model_fn, params, data, hooks=(), **replicated):
    """Trains an Estimator to the last step, or until the process is told to stop.

    In a cluster it does this task's part of it.

    Args:
        model_fn: Function of `features, labels, mode, params`.
        params: Dict of settings.
        data: An open `Data`.
        hooks: More session hooks; in a cluster, only the chief uses them. On TPUs there are no
            single steps to hook.
        **replicated: More arguments of `replicate.replicate_model_fn`, for towers.

    Returns:
        Whether training is at its end.
    """
    start, end = checkpoints.latest_step(params["checkpoint_dir"]), params["max_global_step"]

    def input_fn(params, config):
        rows = params.get("batch_size", params["train_batch_size"])
        return data.input_fn(
            params["train_split"], rows, training=True, start_step=start, config=config
        )

    stop = StopOnSignal()
    training = engines.make_estimator(model_fn, params, **replicated)
    shown = []
    # On TPUs there is no loss to fetch between steps.
    if cluster.writes(training.config) and not params["use_tpu"]:
        shown = [ProgressHook(end, params["train_batch_size"]), *hooks]
    with stop:
        cluster.train(training, input_fn, end, [stop, *shown])
    return not stop.is_stopped


def evaluate(model_fn, params, data, split, checkpoint):
    """Evaluates an Estimator on every image of a part of the data, each once.

    Args:
        model_fn: As that of `train`, whose metrics are those of `evaluation.metrics`.
        params: Dict of settings.
        data: An open `Data`.
        split: See `examples.data`.
        checkpoint: Path of the checkpoint.

    Returns:
        Dict of `accuracy`, `cross_entropy` and `num_images`.
    """

    def input_fn(params):
        rows = params.get("batch_size", params["eval_batch_size"])
        batches = data.input_fn(split, rows, training=False)
        return tpu.complete(batches, rows, params.get("context")) if params["use_tpu"] else batches

    return engines.make_estimator(model_fn, params, params["eval_batch_size"]).evaluate(
        input_fn,
        steps=math.ceil(data.size(split) / params["eval_batch_size"]),
        checkpoint_path=checkpoint,
        name=split,
    )


def evaluate_network(params, split, checkpoint, measure):
    """Evaluates a trained network.

    Args:
        params: Settings with which it was trained.
        split: 'train', 'validation', 'test', or several joined by a plus. None: those that
            training set aside, `params['eval_split']`.
        checkpoint: Path of the checkpoint. None: the latest in `params['checkpoint_dir']`.
        measure: Function of `data, split, checkpoint` that returns what `evaluate` does.

    Returns:
        Metrics.

    Raises:
        UserError: If there is no checkpoint, or an image cannot be decoded.
    """
    split = split or params["eval_split"]
    checkpoint = checkpoints.find(params["checkpoint_dir"], checkpoint)
    data = data_lib.open_data(params)
    with data_lib.naming_broken_images(data):
        measured = measure(data, split, checkpoint)
    return {
        "accuracy": float(measured["accuracy"]),
        "cross_entropy": float(measured["cross_entropy"]),
        "num_images": round(float(measured["num_images"])),
        "split": split,
        "global_step": checkpoints.step_of(checkpoint),
    }
