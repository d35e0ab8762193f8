"""Trains a RevNet on one of five engines, and measures how accurate it is.

    params = train_settings.resolve(engine="towers", checkpoint_dir="runs/digits")
    metrics = training.train_network(params)

The engines are

    eager        a loop in Python, see `loops.py`
    function     the same, with steps that `tf.function` compiles
    estimator    an Estimator
    towers       one whose `model_fn` is replicated
    tpu          a TPUEstimator, on a TPU or on this host

From the same settings all do the same, step by step. *Metrics* are a dict that can be written as
JSON:

    accuracy             share of images whose most probable class is theirs, in [0, 1]
    cross_entropy        mean over images, in nats
    num_images, split    how many images that is of, and which
    global_step          of the checkpoint
    params, depth        of the network: trainable weights, and layers on its longest way
    preset, engine, recompute, seed    as in the settings
"""

import math
import time

import tensorflow.compat.v1 as tf

from examples import data as data_lib
from examples.data import tpu
from examples.revnet import loops, restoring
from examples.revnet.model_fn import make_model, model_fn
from examples.revnet.train_settings import network
from examples.runs import checkpoints, engines, settings_file
from examples.runs.errors import UserError
from examples.runs.stopping import StopOnSignal
from replicate.hooks import ProgressHook

METRICS = "metrics.json"


def train_network(params, on_step=None):
    """Trains a network to the end, then evaluates it once.

    A rerun in the same `checkpoint_dir` resumes. Leaves there params.json, checkpoints, event
    files, and the metrics as metrics.json.

    Args:
        params: Dict of settings, as `train_settings.resolve` returns it.
        on_step: As that of `train`.

    Returns:
        Metrics, with `train_seconds`: how long training took in this process.

    Raises:
        UserError: As `train`.
        KeyboardInterrupt: If training was stopped by a signal; it is saved.
    """
    start = time.perf_counter()
    if not train(params, on_step):
        raise KeyboardInterrupt
    seconds = time.perf_counter() - start
    metrics = {**evaluate_network(params), "train_seconds": round(seconds, 2)}
    settings_file.write_json(metrics, params["checkpoint_dir"], METRICS)
    return metrics


def train(params, on_step=None):
    """Trains a network to the end, or until it is told to stop; a rerun resumes.

    Args:
        params: Dict of settings, as `train_settings.resolve` returns it.
        on_step: Function of the global step after a step, an int, and of its loss, a float. It is
            not called on TPUs, where there is no loss to fetch between steps.

    Returns:
        Whether training is at its end.

    Raises:
        UserError: If the settings are not those with which training began, the network does not
            run here, an image cannot be decoded, or the loss is no longer a number.
    """
    settings_file.check_same(params)
    settings_file.save(params)
    if checkpoints.latest_step(params["checkpoint_dir"]) >= params["max_global_step"]:
        return True
    data = data_lib.open_data(params)
    run = loops.train if params["engine"] in loops.ENGINES else _train_estimator
    try:
        with data_lib.naming_broken_images(data):
            return run(params, data, on_step)
    except tf.train.NanLossDuringTrainingError as error:
        rates = " ".join(f"{rate:g}" for rate in params["learning_rates"])
        raise UserError(
            f"The loss is no longer a number. Lower --learning_rates, {rates}, and name a new "
            "--checkpoint_dir."
        ) from error


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
    step = checkpoints.step_of(checkpoint)
    data = data_lib.open_data(params)
    with data_lib.naming_broken_images(data):
        if params["engine"] in loops.ENGINES:
            model = restoring.load(params, checkpoint)
            measured = loops.evaluate(model, params, data, split, step)
        else:
            measured = _evaluate_estimator(params, data, split, checkpoint)
    return {
        "accuracy": float(measured["accuracy"]),
        "cross_entropy": float(measured["cross_entropy"]),
        "num_images": round(float(measured["num_images"])),
        "split": split,
        "global_step": step,
        "params": num_weights(params),
        "depth": network(params).depth,
        **{name: params[name] for name in ("preset", "engine", "recompute", "seed")},
    }


def num_weights(params):
    """Returns how many trainable weights the network has, an int."""
    weights = make_model(params).trainable_variables
    return sum(weight.shape.num_elements() for weight in weights)


class _LossHook(tf.train.SessionRunHook):
    """Calls a function of the global step after each step, and of its loss."""

    def __init__(self, on_step):
        self._on_step = on_step

    def begin(self):
        # Where Estimators put the loss of their spec.
        self._loss = tf.losses.get_losses()[-1]
        self._global_step = tf.train.get_global_step()

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        step = int(run_context.session.run(self._global_step))
        self._on_step(step, float(run_values.results))


def _train_estimator(params, data, on_step):
    start = checkpoints.latest_step(params["checkpoint_dir"])
    end = params["max_global_step"]

    def input_fn(params, config):
        rows = params.get("batch_size", params["train_batch_size"])
        return data.input_fn(
            params["train_split"], rows, training=True, start_step=start, config=config
        )

    stop = StopOnSignal()
    hooks = [stop]
    if not params["use_tpu"]:  # On TPUs there is no loss to fetch between steps.
        hooks.append(ProgressHook(end, params["train_batch_size"]))
        if on_step is not None:
            hooks.append(_LossHook(on_step))
    with stop:
        engines.make_estimator(model_fn, params).train(input_fn, max_steps=end, hooks=hooks)
    return not stop.is_stopped


def _evaluate_estimator(params, data, split, checkpoint):
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
