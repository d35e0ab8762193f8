"""Trains one model function on every engine, and compares weights and losses with one device.

Every run of a row starts from the same checkpoint, written on one device, and sees the same rows in
every step. One device runs without `replicate`: optimizers are not wrapped. An engine of replicas
gets a batch for each replica where towers get one for all.
"""

import atexit
import functools
import pathlib
import shutil
import tempfile
from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

import contract
import replicate
from contract import models
from engines import tpu_graphs
from engines.data import ROWS, SEED, STEPS, dataset, rows, settings_of
from replicate import estimator

MODELS = models.rows("engine")
TPU_CORES = 4
TRAIN = estimator.ModeKeys.TRAIN


class Run(NamedTuple):
    """Results of training: the loss of each step, and all that the last checkpoint holds."""

    losses: List[float]
    variables: Dict[str, np.ndarray]


class Engine(NamedTuple):
    """How an engine trains.

    Attributes:
        title: What people call it.
        towers: Towers or replicas that it runs.
        parts: Batches that it takes in a step.
        make: Function of `model_fn`, directory and `params` that returns the Estimator.
    """

    title: str
    towers: int
    parts: int
    make: Callable[..., Any]


def devices(count):
    return [f"/cpu:{index}" for index in range(count)]


def _config(directory, count=2, kind=None, **kwargs):
    return (kind or estimator.RunConfig)(
        model_dir=str(directory),
        tf_random_seed=SEED,
        session_config=replicate.session_config(devices(count)),
        **kwargs,
    )


def _one_device(model_fn, directory, params):
    params = dict(params, wrap=contract.plain)
    return estimator.Estimator(model_fn, config=_config(directory, 1), params=params)


def _replicated(model_fn, count, params):
    """Runs a model in towers; one with a network of its own for each is the program of one."""
    per_tower = "num_towers" in params
    return replicate.replicate_model_fn(model_fn, devices=devices(count), per_tower=per_tower)


def _towers(count, model_fn, directory, params):
    model_fn = _replicated(model_fn, count, params)
    return estimator.Estimator(model_fn, config=_config(directory, count), params=params)


def _strategy(make, model_fn, directory, params):
    config = _config(directory, train_distribute=make())
    return estimator.Estimator(model_fn, config=config, params=params)


def _tpu_estimator(count, model_fn, directory, params):
    if count > 1:
        model_fn = _replicated(model_fn, count, params)
    return estimator.tpu.TPUEstimator(
        model_fn,
        config=_config(directory, count, estimator.tpu.RunConfig),
        params=params,
        use_tpu=False,
        train_batch_size=ROWS,
    )


def mirrored():
    """Returns a strategy; eagerly one for all tests.

    There, all strategies of a process use one group of collectives, under the same keys. With a
    strategy for each test, one step in some thousands was cancelled before it had started.
    """
    if tf.executing_eagerly():
        return _eagerly_mirrored()
    return tf.distribute.MirroredStrategy(devices(2))


@functools.lru_cache(maxsize=None)
def _eagerly_mirrored():
    return tf.compat.v2.distribute.MirroredStrategy(devices(2))


def central_storage():
    return tf.distribute.experimental.CentralStorageStrategy(devices(2), "/cpu:0")


def one_device():
    return tf.distribute.OneDeviceStrategy("/cpu:0")


ENGINES = {
    "one_device": Engine("one device", 1, 1, _one_device),
    "towers_2": Engine("2 towers", 2, 1, functools.partial(_towers, 2)),
    "towers_3": Engine("3 towers", 3, 1, functools.partial(_towers, 3)),
    "mirrored": Engine("`MirroredStrategy`, 2", 2, 2, functools.partial(_strategy, mirrored)),
    "central": Engine(
        "`CentralStorageStrategy`, 2", 2, 2, functools.partial(_strategy, central_storage)
    ),
    "one_device_strategy": Engine(
        "`OneDeviceStrategy`", 1, 1, functools.partial(_strategy, one_device)
    ),
    "tpu_estimator": Engine("`TPUEstimator` on CPU", 1, 1, functools.partial(_tpu_estimator, 1)),
    "tpu_estimator_2": Engine("same, 2 towers", 2, 1, functools.partial(_tpu_estimator, 2)),
}


def reference(model, engine):
    """Returns the engine to compare with, None if it is the engine itself."""
    if MODELS[model].own_networks and ENGINES[engine].towers > 1:
        same = [name for name, other in ENGINES.items() if other.towers == ENGINES[engine].towers]
        return None if same[0] == engine else same[0]
    return "one_device"


def _save_start(name, directory):
    """Saves what a model is initialised with on one device."""
    params = dict(settings_of(name, 1, directory), wrap=contract.plain)
    with tf.Graph().as_default():
        tf.set_random_seed(SEED)
        tf.train.create_global_step()
        batch = tf.data.make_one_shot_iterator(dataset(name)).get_next()
        MODELS[name].fn(*batch, TRAIN, params)
        saver = tf.train.Saver()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            saver.save(session, str(pathlib.Path(directory) / "model.ckpt"), global_step=0)


@functools.lru_cache(maxsize=None)
def start(name):
    """Returns the directory of the checkpoint that all runs of a model start from."""
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory)
    _save_start(name, directory)
    return directory


@functools.lru_cache(maxsize=None)
def run(name, engine):
    """Returns the `Run` of a model on an engine; each is done once."""
    engine = ENGINES[engine]
    with tempfile.TemporaryDirectory() as parent:
        directory = pathlib.Path(parent) / "model"
        shutil.copytree(start(name), directory)
        params = settings_of(name, engine.towers, directory)
        made = engine.make(MODELS[name].fn, directory, dict(params, wrap=replicate.TowerOptimizer))
        return _trained(made, lambda params=None: dataset(name, engine.parts))


def train(model_fn, strategy, optimizer="momentum", reduction=contract.MEAN, batches=contract.EVEN):
    """Trains a model of the contract in replicas; on one device as it is if `strategy` is None."""
    wrap = contract.plain if strategy is None else replicate.TowerOptimizer
    size = batches.size // (1 if strategy is None else strategy.num_replicas_in_sync)
    params = contract.make_params(optimizer, reduction, wrap)
    with tempfile.TemporaryDirectory() as directory:
        config = _config(directory, train_distribute=strategy)
        made = tf.estimator.Estimator(model_fn, config=config, params=params)
        return _trained(made, lambda: contract.dataset(batches._replace(size=size)))


def _trained(made, input_fn):
    """Trains an Estimator until its input ends; returns the `Run`."""
    recorder = contract.LossRecorder()
    made.train(input_fn, hooks=[recorder])
    names = made.get_variable_names()
    return Run(recorder.losses, {name: made.get_variable_value(name) for name in names})


def deviation(got, want, rounding=0.0):
    """Returns the largest deviation of a `Run`, relative to the largest entry of what it is in.

    Of that, what is not more than `rounding` does not count.
    """
    assert sorted(got.variables) == sorted(want.variables)
    assert len(got.losses) == len(want.losses) == STEPS
    pairs = [(got.variables[key], want.variables[key]) for key in want.variables]
    pairs.append((np.array(got.losses), np.array(want.losses)))
    return max(
        max(np.max(np.abs(a - b), initial=0.0) - rounding, 0.0)
        / max(np.max(np.abs(b), initial=0.0), 1e-300)
        for a, b in ((np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs)
    )


def tpu_graph(name):
    """Builds a model for TPU cores; returns how many cross-replica sums it has.

    Raises:
        AssertionError: If the computation holds what a TPU cannot do.
    """
    with tf.Graph().as_default() as graph:
        tf.enable_resource_variables()
        tf.train.create_global_step()
        features, labels = rows()
        keys = sorted(features)

        def computation(labels, *values):
            shapes.append([value.shape.as_list()[0] for value in (labels, *values)])
            params = {"wrap": replicate.TowerOptimizer}
            spec = MODELS[name].fn(dict(zip(keys, values)), labels, TRAIN, params)
            return tf.reshape(spec.loss, [1]), spec.train_op

        shapes = []
        inputs = [
            tf.convert_to_tensor(value[:ROWS]) for value in (labels, *map(features.get, keys))
        ]
        tf.tpu.shard(computation, inputs, TPU_CORES)
        assert shapes == [[ROWS // TPU_CORES] * len(inputs)]
        metadata = [op for op in graph.get_operations() if op.type == "TPUReplicateMetadata"]
        assert [op.get_attr("num_replicas") for op in metadata] == [TPU_CORES]
        tpu_graphs.check_inside(graph)
        return len(tpu_graphs.everywhere("CrossReplicaSum", graph))
