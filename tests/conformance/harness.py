"""Trains a complete program on one device and on towers, and compares the two.

A program is a `model_fn` in the style of the code it stands for. On one device it runs without
`replicate`: unwrapped, and with optimizers that `TowerOptimizer` leaves as they are. Both runs
start from the same checkpoint, since most default initialisers ignore the graph's seed, and see the
same batches, of which the last is smaller. Compared are the loss of every step, the names and
values of all that the last checkpoint holds, the metrics, and the predictions in order.

Most rows are compared by `replicate.compare`, as users compare theirs, which looks at all variables
after each step as well. Those that train in a way of their own, or do not start from a checkpoint,
are run here; how far arrays are apart is measured by the library in either case.
"""

import contextlib
import functools
import inspect
import io
import pathlib
import random
import shutil
import tempfile
from typing import Any, Dict, NamedTuple
from unittest import mock

import numpy as np
import tensorflow.compat.v1 as tf

import contract
import replicate
import versions
from conformance import program
from contract import models
from replicate import estimator
from replicate.comparing.deviations import TOLERANCES, deviation

# Batch norm of few rows magnifies the rounding of float32; by the weights that TensorFlow 1.15
# draws from 7, to more than the tolerance.
SEED = 8 if versions.IS_1 else 7
OPTIMIZED = True  # Whether sessions run TensorFlow's graph optimizer, as those of users do.


class Run(NamedTuple):
    """The visible results of a training run.

    Attributes:
        losses: Loss of each step.
        variables: What the last checkpoint holds, by name.
        metrics: What `Estimator.evaluate` returned.
        predictions: What `Estimator.predict` returned, by key, for all rows.
        extra: What else the row's own `drive` saw.
    """

    losses: np.ndarray
    variables: Dict[str, np.ndarray]
    metrics: Dict[str, Any]
    predictions: Dict[str, np.ndarray]
    extra: Dict[str, Any]


_HOLDERS = []  # Directories of rows' files, which are removed with these objects.


def compare(name, num_towers, placement="consolidation", one_line=False):
    """Runs a row on towers and compares it with one device.

    Args:
        name: Name of the row.
        num_towers: N.
        placement: `variable_placement` of `replicate_model_fn`.
        one_line: Whether towers take nothing but `replicate_model_fn(model_fn)`: no optimizer is
            wrapped, and nobody says how the loss is made.

    Returns:
        List of `Deviation`s, one for each thing compared; that which is worst first.
    """
    row = program.load(name)
    if program.is_plain(row):
        found, steps = _by_library(name, num_towers, placement, one_line)
    else:
        want, got = _run(name, 1), _run(name, num_towers, placement, one_line)
        steps = len(want.losses)
        found = [deviation("losses", got.losses, want.losses, coarsest=row.tolerance)]
        for field in ("variables", "metrics", "predictions", "extra"):
            ours, theirs = getattr(got, field), getattr(want, field)
            for key in sorted({*ours, *theirs}, key=str):
                pair = ours.get(key), theirs.get(key)
                found.append(deviation(f"{field}: {key}", *pair, coarsest=row.tolerance))
    if steps < 3:
        raise ValueError(f"row {name} trains for {steps} steps, which shows little")
    return sorted(found, key=lambda one: -one.excess)


def report(name, num_towers, placement="consolidation", file=None, one_line=False):
    """Returns what `replicate.compare` makes of a row, a `Comparison`.

    Args:
        name: Name of the row, which must be a plain one.
        num_towers: N.
        placement: `variable_placement` of `replicate_model_fn`.
        file: Where the report is printed. None: nowhere.
        one_line: As `compare` takes it.
    """
    row, directory = program.load(name), _directory(name)
    devices = [f"/cpu:{index}" for index in range(num_towers)]
    random.seed(SEED)  # Keras' initialisers draw from it, on some versions.
    with tf.Graph().as_default():  # By which Keras counts the names of layers.
        original = _original(row)
    with tf.Graph().as_default():  # As code of TensorFlow 1 is, never eager.
        model_fn = _original(row) if one_line else row.make_model_fn()
        return replicate.compare(
            model_fn,
            make_input_fn(row),
            params=_params(row, model_fn, directory),
            config=_config(row, devices),
            devices=devices,
            steps=-(-row.batches.total // row.batches.size),
            original=original,
            # The library finds the tolerance of a type by itself.
            tolerance=None if row.tolerance in TOLERANCES.values() else row.tolerance,
            file=file or io.StringIO(),
            loss_reduction=program.MEAN if one_line else row.reduction,
            variable_placement=placement,
        )


def _by_library(name, num_towers, placement, one_line):
    """Returns the `Deviation`s of a plain row, and for how many steps it trains."""
    made = report(name, num_towers, placement, one_line=one_line)
    is_coarser = versions.IS_1 and name in models.rows("coarser_in_1")
    if made.tolerance != program.load(name).tolerance and not is_coarser:
        raise ValueError(f"row {name} has tolerance {made.tolerance}")
    if made.not_compared:
        raise ValueError(f"row {name} is not compared in all: {made.not_compared}")
    return list(made.all), len(made.losses)


def _original(row):
    """Returns what a row runs on one device, without `replicate`."""
    with _without_replicate():
        model_fn = (row.make_original or row.make_model_fn)()

    @functools.wraps(model_fn)
    def original_model_fn(*args, **kwargs):
        with _without_replicate():
            return model_fn(*args, **kwargs)

    return original_model_fn


def make_input_fn(row):
    """Returns the `input_fn` of a row: an epoch."""
    features, labels = row.rows(row.batches.total)

    def input_fn():
        dataset = row.batches.dataset((features, labels))
        return dataset.map(row.parse) if row.parse is not None else dataset

    return input_fn


def _params(row, model_fn, directory):
    if "params" not in inspect.signature(model_fn).parameters:
        return None
    return {**dict(row.params), "directory": str(directory)}


def _config(row, devices, **kwargs):
    session_config = replicate.session_config(devices, graph_options=tf.GraphOptions())
    session_config.graph_options.rewrite_options.disable_meta_optimizer = not OPTIMIZED
    return estimator.RunConfig(
        session_config=session_config,
        tf_random_seed=SEED,
        save_summary_steps=2,
        log_step_count_steps=None,
        **kwargs,
        **dict(row.config),
    )


@functools.lru_cache(maxsize=None)
def _directory(name):
    """Returns a directory for a row's files, which it has filled; removed when Python ends."""
    holder = tempfile.TemporaryDirectory(prefix=f"conformance_{name}_")
    _HOLDERS.append(holder)
    row = program.load(name)
    if row.prepare is not None:
        with _without_replicate(), tf.Graph().as_default():
            row.prepare(pathlib.Path(holder.name))
    return pathlib.Path(holder.name)


@functools.lru_cache(maxsize=None)
def _run(name, num_towers, placement="consolidation", one_line=False):
    """Returns the `Run` of a row; 1 tower is one device, without `replicate`."""
    row, directory = program.load(name), _directory(name)
    model_dir = directory / f"towers_{num_towers}"  # Of a placement before, it is removed.
    one = directory / "towers_1"
    shutil.rmtree(model_dir, ignore_errors=True)  # A run that failed may have left files.
    if num_towers > 1 and row.same_start:
        _run(name, 1)
        _copy_start(one, model_dir)
    input_fn = make_input_fn(row)
    with making(name, num_towers, model_dir, placement, one_line) as model:
        recorder = contract.LossRecorder()
        extra = row.drive(model, input_fn, [recorder])
        metrics = model.evaluate(input_fn)
        predictions = list(model.predict(lambda: input_fn())) if row.predicts else []
    reader = tf.train.load_checkpoint(model.latest_checkpoint())
    return Run(
        np.array(recorder.losses),
        {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()},
        metrics,
        {key: np.array([row[key] for row in predictions]) for key in _keys(predictions)},
        extra,
    )


@contextlib.contextmanager
def making(name, num_towers, model_dir, placement="consolidation", one_line=False):
    """A scope with the Estimator of a row; 1 tower is one device, without `replicate`."""
    row, directory = program.load(name), _directory(name)
    devices = [f"/cpu:{index}" for index in range(num_towers)]
    random.seed(SEED)  # Keras' initialisers draw from it, on some versions.
    unwrapped = num_towers == 1 or one_line
    wrapping = _without_replicate() if unwrapped else contextlib.nullcontext()
    with tf.Graph().as_default(), wrapping:  # As code of TensorFlow 1 is, never eager.
        model_fn = ((unwrapped and row.make_original) or row.make_model_fn)()
        params = _params(row, model_fn, directory)
        if num_towers > 1:
            model_fn = replicate.replicate_model_fn(
                model_fn,
                program.MEAN if one_line else row.reduction,
                devices=devices,
                variable_placement=placement,
            )
        config = _config(row, devices, model_dir=str(model_dir))
        warm_start = row.warm_start(directory) if row.warm_start is not None else None
        yield estimator.Estimator(
            model_fn, config=config, params=params, warm_start_from=warm_start
        )


def _keys(predictions):
    if predictions and not isinstance(predictions[0], dict):
        raise TypeError("rows predict dictionaries")
    return predictions[0] if predictions else ()


def _copy_start(one, model_dir):
    """Gives `model_dir` the checkpoint with which training in `one` began."""
    model_dir.mkdir()
    for path in one.glob("model.ckpt-0.*"):
        shutil.copy(path, model_dir)
    (model_dir / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-0"\n')


@contextlib.contextmanager
def _without_replicate():
    """A scope in which a `model_fn` is that of one device: `TowerOptimizer(x)` is `x`."""

    def unwrapped(optimizer):
        return optimizer if hasattr(optimizer, "apply_gradients") else optimizer()

    with mock.patch.object(replicate, "TowerOptimizer", unwrapped):
        yield
