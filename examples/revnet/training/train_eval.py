"""Trains a RevNet on one of five engines, and measures how accurate it is.

    params = train_settings.resolve(engine="towers", checkpoint_dir="runs/digits")
    metrics = training.train_network(params)

The engines are

    eager        a loop in Python, see `custom_loop.py`
    function     the same, with steps that `tf.function` compiles
    estimator    an Estimator
    towers       one whose `model_fn` is replicated
    tpu          a TPUEstimator, on a TPU or on this host

From the same settings all do the same, step by step. *Metrics* are those of
`examples/classifiers/training.py` and

    params, depth        of the network: trainable weights, and layers on its longest way
    preset, engine, recompute, seed    as in the settings
"""

import tensorflow.compat.v1 as tf

from examples import data as data_lib
from examples.classifiers import training as classifiers
from examples.revnet.training import custom_loop
from examples.revnet.training.model_fn import make_model, model_fn
from examples.revnet.training.train_settings import network
from examples.runs import checkpoints, cluster, settings_file
from examples.runs.errors import UserError


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
    return classifiers.train_and_evaluate(
        params, lambda params: train(params, on_step), evaluate_network
    )


def check(params):
    """Raises what `train` does of settings, before anything is announced or written.

    Training may go on to a later step than it was to end at: rates are those of single steps.
    """
    cluster.refuse("A RevNet")
    settings_file.check_same(params, may_grow=("max_global_step",))


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
            run here, an image cannot be decoded, the loss is no longer a number, or TF_CONFIG
            describes a cluster.
    """
    check(params)
    settings_file.save(params)
    if checkpoints.latest_step(params["checkpoint_dir"]) >= params["max_global_step"]:
        return True
    data = data_lib.open_data(params)
    rates = " ".join(f"{rate:g}" for rate in params["learning_rates"])
    with data_lib.naming_broken_images(data), classifiers.naming_lost_loss("learning_rates", rates):
        if params["engine"] in custom_loop.ENGINES:
            return custom_loop.train(params, data, on_step)
        hooks = [] if on_step is None else [_LossHook(on_step)]
        # The network's batch norm meets the other replicas where there are some; towers share one
        # device's graph, whose fused kernels the library exchanges.
        batch_norm = "batch" if params["cross_tower_batch_norm"] else "tower"
        return classifiers.train(model_fn, params, data, hooks, batch_norm=batch_norm)


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
        if params["engine"] not in custom_loop.ENGINES:
            return classifiers.evaluate(model_fn, params, data, split, checkpoint)
        model = load_model(params, checkpoint)
        return custom_loop.evaluate(model, params, data, split, checkpoints.step_of(checkpoint))

    return {
        **classifiers.evaluate_network(params, split, checkpoint, measure),
        "params": num_weights(make_model(params)),
        "depth": network(params).depth,
        **{name: params[name] for name in ("preset", "engine", "recompute", "seed")},
    }


def load_model(params, checkpoint):
    """Returns the `RevNet` of resolved settings with the weights of a checkpoint.

    Args:
        params: Settings, of which `engine` says how the checkpoint was written.
        checkpoint: Its path.

    Raises:
        UserError: If it is that of another network.
    """
    model = make_model(params)
    try:
        if params["engine"] in custom_loop.ENGINES:
            restored = tf.compat.v2.train.Checkpoint(model=model).restore(checkpoint)
            restored.assert_existing_objects_matched().expect_partial()
        else:
            reader = tf.train.load_checkpoint(checkpoint)
            for variable in model.variables:
                variable.assign(reader.get_tensor(variable.name.split(":")[0]))
    except (AssertionError, ValueError, tf.errors.OpError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(
            f"A checkpoint must be for the network that params.json describes, but {checkpoint} is "
            f"not: {reason}. Name one that this network's training wrote."
        ) from error
    return model


def num_weights(model):
    """Returns how many trainable weights a network has, an int."""
    return sum(weight.shape.num_elements() for weight in model.trainable_variables)


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
