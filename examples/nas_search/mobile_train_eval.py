"""Trains a single network of a search space alone, and measures how accurate it is.

    params = train_settings.resolve(preset="digits", indices="0:1:...", checkpoint_dir="runs/alone")
    metrics = mobile_train_eval.train_network(params)

*Metrics* are a dict that can be written as JSON:

    accuracy             share of images whose most probable class is theirs, in [0, 1]
    cross_entropy        mean over images, in nats, without label smoothing
    num_images, split    how many images that is of, and which
    global_step          of the checkpoint
    madds, params        multiply-adds for one image and trainable weights, exactly
    ssd, indices, seed   as in the settings

After `mobile_train_eval` of TuNAS (Bender, Liu et al., CVPR 2020).
"""

import math
import time

import tensorflow.compat.v1 as tf

from examples import data as data_lib
from examples.data import tpu
from examples.nas_search import schema_io
from examples.nas_search.costs import network_cost
from examples.nas_search.train_model_fn import model_fn, model_spec
from examples.runs import checkpoints, engines, settings_file
from examples.runs.errors import UserError
from examples.runs.stopping import StopOnSignal
from replicate.hooks import ProgressHook

METRICS = "metrics.json"
_MAY_CHANGE_TO_EVALUATE = ("devices", "num_towers", "use_tpu", "eval_batch_size")


def train_network(params):
    """Trains a network to the end, then evaluates it once.

    A rerun in the same `checkpoint_dir` resumes. Leaves there params.json, model_spec.json (the
    network), checkpoints, event files, and the metrics as metrics.json.

    Args:
        params: Dict of settings, as `train_settings.resolve` returns it.

    Returns:
        Metrics, with `train_seconds`: how long training took in this process.

    Raises:
        UserError: As `train`.
        KeyboardInterrupt: If training was stopped by a signal; it is saved.
    """
    start = time.perf_counter()
    if not train(params):
        raise KeyboardInterrupt
    seconds = time.perf_counter() - start
    metrics = {**evaluate_network(params), "train_seconds": round(seconds, 2)}
    settings_file.write_json(metrics, params["checkpoint_dir"], METRICS)
    return metrics


def train(params):
    """Trains a network to the end, or until it is told to stop; a rerun resumes.

    Args:
        params: Dict of settings, as `train_settings.resolve` returns it.

    Returns:
        Whether training is at its end.

    Raises:
        UserError: If the settings name no network, or are not those with which training began; if
            an image cannot be decoded, or the loss is no longer a number.
    """
    network = model_spec(params)
    directory, end = params["checkpoint_dir"], params["max_global_step"]
    settings_file.check_same(params)
    settings_file.save(params)
    schema_io.save(network, directory, "model_spec.json")
    start = checkpoints.latest_step(directory)
    if start >= end:
        return True
    data = data_lib.open_data(params)

    def input_fn(params, config):
        rows = params.get("batch_size", params["train_batch_size"])
        return data.input_fn(
            params["train_split"], rows, training=True, start_step=start, config=config
        )

    stop = StopOnSignal()
    # On TPUs there is no loss to fetch between steps.
    progress = [] if params["use_tpu"] else [ProgressHook(end, params["train_batch_size"])]
    trained = engines.make_estimator(model_fn, params)
    try:
        with data_lib.naming_broken_images(data), stop:
            trained.train(input_fn, max_steps=end, hooks=[stop, *progress])
    except tf.train.NanLossDuringTrainingError as error:
        raise UserError(
            f"The loss is no longer a number. Lower --base_learning_rate, "
            f"{params['base_learning_rate']:g}, and name a new --checkpoint_dir."
        ) from error
    return not stop.is_stopped


def evaluate_network(params, split=None, checkpoint=None):
    """Evaluates a trained network on every image of a part of the data, each once.

    Args:
        params: Settings with which it was trained.
        split: 'train', 'validation', 'test', or several joined by a plus. None: those that
            training set aside, `params['eval_split']`.
        checkpoint: Path of the checkpoint. None: the latest in `params['checkpoint_dir']`.

    Returns:
        Metrics.

    Raises:
        UserError: If there is no checkpoint, or an image cannot be decoded.
    """
    split = split or params["eval_split"]
    checkpoint = checkpoints.find(params["checkpoint_dir"], checkpoint)
    data = data_lib.open_data(params)

    def input_fn(params):
        rows = params.get("batch_size", params["eval_batch_size"])
        batches = data.input_fn(split, rows, training=False)
        return tpu.complete(batches, rows, params.get("context")) if params["use_tpu"] else batches

    trained = engines.make_estimator(model_fn, params, params["eval_batch_size"])
    with data_lib.naming_broken_images(data):
        measured = trained.evaluate(
            input_fn,
            steps=math.ceil(data.size(split) / params["eval_batch_size"]),
            checkpoint_path=checkpoint,
            name=split,
        )
    cost = network_cost.network_cost(
        model_spec(params), params["image_shape"], params["num_classes"]
    )
    return {
        "accuracy": float(measured["accuracy"]),
        "cross_entropy": float(measured["cross_entropy"]),
        "num_images": round(float(measured["num_images"])),
        "split": split,
        "global_step": int(measured["global_step"]),
        "madds": cost.madds,
        "params": cost.params,
        **{name: params[name] for name in ("ssd", "indices", "seed")},
    }


def evaluate_checkpoints(params):
    """Evaluates each new checkpoint of a network that another process trains, until its last step.

    Args:
        params: Settings, as `train_settings.resolve` returns them.

    Yields:
        Metrics of a checkpoint.

    Raises:
        UserError: If the settings are not those of the training, except for where it is evaluated.
    """
    settings_file.check_same(params, may_change=_MAY_CHANGE_TO_EVALUATE)
    for checkpoint in tf.train.checkpoints_iterator(params["checkpoint_dir"]):
        metrics = evaluate_network(params, checkpoint=checkpoint)
        yield metrics
        if metrics["global_step"] >= params["max_global_step"]:
            return
