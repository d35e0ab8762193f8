"""Harness of the contract "N towers = one device".

Trains a `model_fn` as it is on one device, and replicated over N logical CPU devices, on the same
batches with the same seed, and records what can be seen from outside after every step. A model_fn
that works here takes `params` with the keys

    wrap       what to wrap each optimizer in: nothing on one device, `TowerOptimizer` on towers
    optimizer  a key of `OPTIMIZERS`
    reduction  how the loss is made from the rows' losses, a `tf.losses.Reduction`
"""

import contextlib
import functools
from typing import Any, Dict, List, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import replicate

SEED = 7
MEAN = tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS
SUM = tf.losses.Reduction.SUM
ModeKeys = tf.estimator.ModeKeys

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.02),
    "momentum": lambda: tf.train.MomentumOptimizer(0.01, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
}


class Batches(NamedTuple):
    """An epoch of batches: `total` rows, `size` of them at a time."""

    total: int
    size: int
    static: bool  # Whether the graph knows the batch size.

    @property
    def steps(self):
        return -(-self.total // self.size)


# Over 2, 3 and 8 towers, 11 rows make shards of 6+5, 4+4+3 and 2+2+2+1+1+1+1+1.
EVEN = Batches(total=72, size=24, static=True)
UNEVEN = Batches(total=33, size=11, static=True)
DYNAMIC = Batches(total=23, size=11, static=False)  # The last batch has 1 row: some towers none.


class Run(NamedTuple):
    """Results of a training run: the loss of each step, and all global variables after it."""

    losses: List[Any]
    variables: List[Dict[str, Any]]


def rows_of(total):
    """Returns features and labels of `total` rows that differ from one another."""
    random = np.random.RandomState(SEED)
    features = {
        "x": random.normal(size=(total, 4)),
        "ids": random.randint(0, 6, size=(total, 2)),
        "weight": (random.uniform(size=(total, 1)) > 0.3).astype(np.float64),
    }
    labels = np.sin(features["x"].sum(axis=1, keepdims=True)) + 0.1 * features["ids"][:, :1]
    return features, labels


def dataset(batches):
    """Returns the `tf.data.Dataset` of `batches`; an `input_fn` when bound to its argument."""
    data = tf.data.Dataset.from_tensor_slices(rows_of(batches.total))
    return data.batch(batches.size, drop_remainder=batches.static)


def session_config(num_towers):
    """Returns a `tf.ConfigProto` with TensorFlow's graph optimizer, which towers on GPUs have."""
    return replicate.session_config(device_names(num_towers), graph_options=tf.GraphOptions())


def device_names(num_towers):
    return [f"/cpu:{index}" for index in range(num_towers)]


def plain(optimizer):
    """Wraps an optimizer in nothing, as on one device."""
    return optimizer() if not hasattr(optimizer, "apply_gradients") else optimizer


def make_params(optimizer="sgd", reduction=MEAN, wrap=plain):
    return {"optimizer": optimizer, "reduction": reduction, "wrap": wrap}


def replicated(model_fn, num_towers, reduction=MEAN, **kwargs):
    return replicate.replicate_model_fn(
        model_fn, reduction, devices=device_names(num_towers), **kwargs
    )


class LossRecorder(tf.train.SessionRunHook):
    """Records the loss that the Estimator sees, which it puts last into the losses' collection."""

    def __init__(self):
        self.losses = []

    def begin(self):
        self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.losses.append(run_values.results)


class Recorder(tf.train.SessionRunHook):
    """Records the loss of each step and all global variables after it."""

    def __init__(self, loss):
        self.run = Run([], [])
        self._loss = loss

    def begin(self):
        self._variables = {v.name: v for v in tf.global_variables()}

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.run.losses.append(run_values.results)
        # Not one of the step's fetches, which may be computed before the update.
        self.run.variables.append(run_context.session.run(self._variables))


def record(model_fn, input_fn, params, num_towers=1):
    """Trains on what `input_fn` gives until it ends, without an Estimator; returns the `Run`."""
    with tf.Graph().as_default():
        tf.set_random_seed(SEED)
        tf.train.create_global_step()
        features, labels = tf.data.make_one_shot_iterator(input_fn()).get_next()
        spec = model_fn(features, labels, mode=ModeKeys.TRAIN, params=params)
        recorder = Recorder(spec.loss)
        hooks = [*spec.training_hooks, *spec.training_chief_hooks, recorder]
        creator = tf.train.ChiefSessionCreator(spec.scaffold, config=session_config(num_towers))
        # Threads of queue runners that wait for a next step are not waited for.
        with tf.train.MonitoredSession(creator, hooks, stop_grace_period_secs=0) as session:
            while not session.should_stop():
                session.run(spec.train_op)
    return recorder.run


def record_plain(model_fn, num_towers, batches, wrap=plain, **kwargs):
    """Returns the `Run` of `model_fn` on towers, or on one device as it is."""
    if num_towers > 1:
        return record_towers(model_fn, batches, num_towers, wrap=wrap, **kwargs)
    return record(model_fn, functools.partial(dataset, batches), make_params(wrap=wrap))


def record_towers(
    model_fn,
    batches,
    num_towers,
    optimizer="sgd",
    reduction=MEAN,
    wrapped=(),
    wrap=replicate.TowerOptimizer,
    **kwargs,
):
    """Returns the `Run` of `model_fn` on towers; `wrapped` has further arguments of `wrap`."""
    if wrapped:
        wrap = functools.partial(wrap, **dict(wrapped))
    return record(
        replicated(model_fn, num_towers, reduction, **kwargs),
        functools.partial(dataset, batches),
        make_params(optimizer, reduction, wrap),
        num_towers,
    )


def record_one_device(model_fn, batches, optimizer="sgd", reduction=MEAN):
    """Returns the `Run` of `model_fn` as it is; each is done once.

    Initial values of TensorFlow 1.15 depend on the kind of variables: their seeds are numbers of
    operations. So runs with references and runs with resources are kept apart.
    """
    return _record_once(
        model_fn, batches, optimizer, reduction, resources=tf.resource_variables_enabled()
    )


@functools.lru_cache(maxsize=None)
def _record_once(model_fn, batches, optimizer, reduction, resources):
    del resources  # The run sees it as a setting of the process.
    return record(model_fn, functools.partial(dataset, batches), make_params(optimizer, reduction))


def evaluate(model_fn, input_fn, num_towers=1, mode=ModeKeys.EVAL, params=None):
    """Evaluates or predicts, without an Estimator.

    Returns:
        Dictionary of metric values by name, under "loss" the list of the batches' losses, and under
        "predictions" that of what the spec's predictions were.
    """
    with tf.Graph().as_default():
        tf.set_random_seed(SEED)
        features, labels = tf.data.make_one_shot_iterator(input_fn()).get_next()
        spec = model_fn(features, labels, mode=mode, params=params or make_params())
        spec.scaffold.finalize()
        step = {"predictions": spec.predictions}
        if mode == ModeKeys.EVAL:
            step["loss"] = spec.loss
        updates = [update for _, update in spec.eval_metric_ops.values()]
        seen = []
        with tf.Session(config=session_config(num_towers)) as session:
            session.run(spec.scaffold.init_op)
            session.run(spec.scaffold.local_init_op)
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while True:
                    seen.append(session.run((step, updates))[0])
            values = session.run({name: value for name, (value, _) in spec.eval_metric_ops.items()})
    return dict(values, **{key: [one[key] for one in seen] for key in step})


class EstimatorRun(NamedTuple):
    """Results of an Estimator's run, and what it can be asked for afterwards."""

    run: Run
    evaluation: Dict[str, Any]
    predictions: List[Dict[str, Any]]
    estimator: Any


def make_estimator(model_fn, directory, params, num_towers=1):
    config = tf.estimator.RunConfig(
        model_dir=str(directory),
        tf_random_seed=SEED,
        session_config=session_config(num_towers),
    )
    return tf.estimator.Estimator(model_fn, config=config, params=params)


def run_estimator(model_fn, directory, batches, params, num_towers=1):
    """Trains, evaluates and predicts with a real Estimator."""
    recorders = []

    def recorded(features, labels, mode, params, config):
        given = {"config": config} if num_towers > 1 else {}
        spec = model_fn(features, labels, mode=mode, params=params, **given)
        if mode == ModeKeys.TRAIN:
            recorders.append(Recorder(spec.loss))
            spec = spec._replace(training_hooks=[*spec.training_hooks, recorders[-1]])
        return spec

    estimator = make_estimator(recorded, directory, params, num_towers)
    estimator.train(lambda: dataset(batches))
    evaluation = estimator.evaluate(lambda: dataset(batches))
    predictions = list(estimator.predict(lambda: dataset(batches)))
    return EstimatorRun(recorders[0].run, evaluation, predictions, estimator)
