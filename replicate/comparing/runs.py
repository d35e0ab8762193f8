"""One run of a model, on one device or over towers: what it trains, measures and predicts."""

import contextlib
import functools
import inspect
import json
import pathlib
import random

import numpy as np
import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate.batch import weights
from replicate.comparing.deviations import comparable, largest_of
from replicate.compat import estimator
from replicate.partition import specs


class Model:
    """A `model_fn`, and the last spec that it returned.

    Args:
        model_fn: The function.
        scope: Function without arguments that returns the scope in which it is called.

    Attributes:
        model_fn: A function with the same arguments that does the same.
        spec: The last `EstimatorSpec`, None before it is called.
    """

    def __init__(self, model_fn, scope=contextlib.nullcontext):
        @functools.wraps(model_fn)
        def observed_model_fn(*args, **kwargs):
            with scope():
                self.spec = specs.as_estimator_spec(model_fn(*args, **kwargs))
            return self.spec

        # The Estimator passes what it finds here.
        observed_model_fn.__signature__ = inspect.signature(model_fn)
        self.model_fn = observed_model_fn
        self.spec = None


def of_one_device(task):
    """Returns the `Model` that one device runs: the user's function, as it is."""

    @contextlib.contextmanager
    def scope():
        first = task.devices[0]
        default = devices_lib.is_default_device(first)
        placed = contextlib.nullcontext() if default else tf.device(first)
        # Losses of batches that are accumulated go by those of towers.
        with placed, weights.losses_added_up(task.summed):
            yield

    return Model(task.original, scope)


class Run:
    """A model's training, evaluation and predictions, in a directory of its own.

    Args:
        model: The `Model`.
        task: The `Task`.
        directory: A `pathlib.Path` that is not there yet.
        start: Prefix of the checkpoint to start from, which is copied; None: initial values.
        warm_start_from: As of `tf.estimator.Estimator`.

    Attributes:
        losses: The loss of each step.
        start: Prefix of a copy of the checkpoint that training has started from.
        is_finite: Whether training went on to the end, without a loss that is not a number.
    """

    def __init__(self, model, task, directory, start=None, warm_start_from=None):
        self._directory = directory
        self._model = model
        self.losses = []
        self.start = None
        self.is_finite = True
        (directory / "model").mkdir(parents=True)
        if start is not None:
            _copy_checkpoint(start, directory / "model")
        self._estimator = estimator.Estimator(
            model.model_fn,
            config=task.config.replace(model_dir=str(directory / "model")),
            params=task.params,
            warm_start_from=warm_start_from,
        )

    def train(self, batches, on_values):
        """Trains a step with each batch.

        Args:
            batches: The `Batches`.
            on_values: Function of the number of steps done and a dict of the values of all global
                variables by name, that is called before the first step and after each.
        """

        def on_start():
            # Initial values that wait for a check of rows take a batch; restored ones do not.
            batches.begin_again()
            self.start = _copy_checkpoint(
                tf.train.latest_checkpoint(self._estimator.model_dir), self._directory / "start"
            )

        hook = _Observer(self._model, len(batches), self.losses, on_start, on_values)
        try:
            self._estimator.train(batches.input_fn(repeated=True), hooks=[hook])
        except tf.train.NanLossDuringTrainingError:
            self.is_finite = False

    def evaluate(self, batches):
        """Returns the metrics of the batches, a dict."""
        return self._estimator.evaluate(batches.input_fn())

    def predict(self, batches):
        """Yields a dict of arrays for each batch."""
        for found in self._estimator.predict(batches.input_fn(), yield_single_examples=False):
            found = found if isinstance(found, dict) else {"predictions": found}
            if not found:  # Fetching nothing reads no batch, so that it would never end.
                raise ValueError("`predictions` must hold a tensor, but is {}")
            # Several heads have pairs for keys.
            yield {
                "/".join(map(str, key)) if isinstance(key, tuple) else str(key): value
                for key, value in found.items()
            }

    def checkpoint(self):
        """Returns what the last checkpoint holds, by name."""
        reader = tf.train.load_checkpoint(self._estimator.latest_checkpoint())
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


class _Observer(tf.train.SessionRunHook):
    def __init__(self, model, steps, losses, on_start, on_values):
        self._model = model
        self._steps = steps
        self._losses = losses
        self._on_start = on_start
        self._on_values = on_values

    def begin(self):
        self._reads = {
            variable.op.name: variable.read_value()
            for variable in tf.global_variables()
            if isinstance(getattr(variable, "op", None), tf.Operation)
        }

    def after_create_session(self, session, coord):
        self._read(session)

    def before_run(self, run_context):
        if not self._losses:  # By now, the Estimator has saved where it starts.
            self._on_start()
        return tf.train.SessionRunArgs(self._model.spec.loss)

    def after_run(self, run_context, run_values):
        self._losses.append(run_values.results)
        self._read(run_context.session)
        if len(self._losses) >= self._steps:
            run_context.request_stop()

    def _read(self, session):
        values = session.run(self._reads)
        values = {name: comparable(value) for name, value in values.items()}
        self._on_values(len(self._losses), values)


def _copy_checkpoint(prefix, directory):
    """Copies a checkpoint into a directory, as its last; returns the prefix of the copy."""
    if prefix is None:
        raise ValueError(
            "A run must write its checkpoints where it runs, to start the other from the first, "
            "but there is none. Drop the `CheckpointSaverHook` from what `model_fn` returns."
        )
    directory.mkdir(exist_ok=True)
    name = pathlib.PurePath(prefix).name
    for path in tf.gfile.Glob(f"{prefix}.index") + tf.gfile.Glob(f"{prefix}.data-*"):
        tf.gfile.Copy(path, str(directory / (name + path[len(str(prefix)) :])), overwrite=True)
    (directory / "checkpoint").write_text(f"model_checkpoint_path: {json.dumps(name)}\n")
    return str(directory / name)


class Store:
    """Arrays of one run, which the other is compared with: on disk, a step at a time in memory.

    Args:
        directory: A `pathlib.Path`.
    """

    def __init__(self, directory):
        self._directory = directory
        directory.mkdir()
        self.largest = {}
        """The size of the largest entry under each name, whatever the number."""

    def write(self, number, arrays):
        """Keeps a dict of arrays under a number."""
        for name, array in arrays.items():
            self.largest[name] = max(largest_of(array), self.largest.get(name, 0.0))
        names = [*arrays]
        values = {f"array{index}": arrays[name] for index, name in enumerate(names)}
        # As texts are objects of Python, they are pickled; nobody else writes here.
        np.savez(self._path(number), names=np.array(names, dtype=object), **values)

    def read(self, number):
        """Returns the dict under a number, None if there is none."""
        if not self._path(number).exists():
            return None
        with np.load(self._path(number), allow_pickle=True) as file:
            names = file["names"].tolist()
            return {name: file[f"array{index}"] for index, name in enumerate(names)}

    def _path(self, number):
        return self._directory / f"{number:06d}.npz"


class RandomState:
    """Where the random numbers of Python and NumPy stand, so that both runs draw the same.

    Keras' initialisers draw their seeds there on some versions, and so does what `model_fn` itself
    may choose at random.
    """

    def __init__(self):
        self._states = random.getstate(), np.random.get_state()

    def restore(self):
        """Takes them back to where they stood."""
        random.setstate(self._states[0])
        np.random.set_state(self._states[1])
