"""Trains a single network of a search space alone, and measures how accurate it is.

    params = train_settings.resolve(preset="digits", indices="0:1:...", checkpoint_dir="runs/alone")
    metrics = mobile_train_eval.train_network(params)

*Metrics* are those of `examples/classifiers/training.py` and

    madds, params        multiply-adds for one image and trainable weights, exactly
    ssd, indices, seed   as in the settings

After `mobile_train_eval` of TuNAS (Bender, Liu et al., CVPR 2020).
"""

import tensorflow.compat.v1 as tf

from examples import data as data_lib
from examples.classifiers import training as classifiers
from examples.nas_search import schema_io
from examples.nas_search.costs import network_cost
from examples.nas_search.spaces import space_files
from examples.nas_search.training import train_facts, weights_of_search
from examples.nas_search.training.train_model_fn import model_fn, model_spec
from examples.runs import checkpoints, cluster, settings_file

# Metrics that `evaluate` leaves beside those of training, by split.
EVALUATED = "metrics_{}.json"
_MAY_CHANGE_TO_EVALUATE = ("ssd_file", "devices", "num_towers", "use_tpu", "eval_batch_size")


def train_network(params):
    """Trains a network to the end, then evaluates it once.

    A rerun in the same `checkpoint_dir` resumes. Leaves there params.json, model_spec.json (the
    network), run_facts.json, checkpoints, event files, and the metrics as metrics.json.

    Args:
        params: Dict of settings, as `train_settings.resolve` returns it.

    Returns:
        Metrics, with `train_seconds`: how long training took in this process.

    Raises:
        UserError: As `train`.
        KeyboardInterrupt: If training was stopped by a signal; it is saved.
    """
    return classifiers.train_and_evaluate(params, train, evaluate_network)


def check(params):
    """Raises what `train` does of settings, before anything is announced or written.

    Training may go on to a later step than it was to end at. From there on, its learning rate is
    that of a training to the later step.
    """
    grows = ("max_global_step", "warmup_steps", "epochs")
    settings_file.check_same(params, may_change=("ssd_file",), may_grow=grows)
    if params.get("from_search") and not checkpoints.latest_step(params["checkpoint_dir"]):
        weights_of_search.check(params)


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
    directory = params["checkpoint_dir"]
    check(params)
    if cluster.writes(cluster.this_task()):
        settings_file.save(params)
        schema_io.save(network, directory, "model_spec.json")
        space_files.keep(params["ssd"], directory)
    if checkpoints.latest_step(directory) >= params["max_global_step"]:
        return True
    data = data_lib.open_data(params)
    if cluster.writes(cluster.this_task()):
        train_facts.save(params, data.sizes)
        if params.get("from_search") and not checkpoints.latest_step(directory):
            with data_lib.naming_broken_images(data):
                weights_of_search.write(params, data)
    rate = f"{params['base_learning_rate']:g}"
    with data_lib.naming_broken_images(data), classifiers.naming_lost_loss(
        "base_learning_rate", rate
    ):
        return classifiers.train(model_fn, params, data)


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

    def measure(data, split, checkpoint):
        return classifiers.evaluate(model_fn, params, data, split, checkpoint)

    metrics = classifiers.evaluate_network(params, split, checkpoint, measure)
    cost = network_cost.network_cost(
        model_spec(params), params["image_shape"], params["num_classes"]
    )
    return {
        **metrics,
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
        try:
            metrics = evaluate_network(params, checkpoint=checkpoint)
        except (ValueError, tf.errors.OpError):
            if tf.train.checkpoint_exists(checkpoint):
                raise
            continue  # Training has deleted it meanwhile; there is a newer one.
        yield metrics
        if metrics["global_step"] >= params["max_global_step"]:
            return
