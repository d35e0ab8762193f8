"""Runs a model, on one device or over towers: trains, evaluates and predicts."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import pathlib
import random
from typing import Any, Callable, ContextManager, Iterator

import numpy as np
import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate.batch import loss_sums
from replicate.comparing.batches import Batches
from replicate.comparing.deviations import comparable, largest_of
from replicate.comparing.explanations import Explanation, look_at_step
from replicate.comparing.task import Task
from replicate.compat import estimator
from replicate.graphs import step_reads
from replicate.partition import specs


class Model:
    """A `model_fn`, and the last spec that it returned.

    Args:
        model_fn: The function.
        scope: Function without arguments that returns the scope in which `model_fn` is called.
        look: Function of an `EstimatorSpec` for training that returns explanations.

    Attributes:
        model_fn: A function with the same arguments and result, which also sets the others.
        spec: The last `EstimatorSpec`; None before the first call.
        explanations: Those of the last one for training.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        scope: Callable[[], ContextManager[Any]] = contextlib.nullcontext,
        look: Callable[[Any], tuple[Explanation, ...]] = lambda _: (),
    ) -> None:
        self.spec: Any = None
        self.explanations: tuple[Explanation, ...] = ()

        @functools.wraps(model_fn)
        def observed_model_fn(*args: Any, **kwargs: Any) -> Any:
            with scope():
                self.spec = specs.as_estimator_spec(model_fn(*args, **kwargs))
            if self.spec.mode == estimator.ModeKeys.TRAIN:
                self.explanations = look(self.spec)
            return self.spec

        # The Estimator passes the arguments that it finds in the signature.
        observed_model_fn.__signature__ = inspect.signature(model_fn)  # type: ignore[attr-defined]
        self.model_fn = observed_model_fn


def one_device_model(task: Task) -> Model:
    """Returns the `Model` that one device runs: the user's function, as it is.

    With `read_step_first`, the global step is read first, as in towers.
    """

    @contextlib.contextmanager
    def scope() -> Iterator[None]:
        first = task.devices[0]
        default = devices_lib.is_default_device(first)
        placed = contextlib.nullcontext() if default else tf.device(first)
        # Accumulated batches must be reduced as in towers, by sum or mean.
        with placed, loss_sums.losses_added_up(task.summed):
            yield

    def look(spec: Any) -> tuple[Explanation, ...]:
        fetches = [spec.train_op, spec.loss]
        if task.options.get("read_step_first"):
            step_reads.order(fetches, reads_first=True)
        return look_at_step(fetches)

    return Model(task.original, scope, look)


class Run:
    """Trains, evaluates and predicts with a model, in a separate directory.

    Args:
        model: The `Model`.
        task: The `Task`.
        directory: A `pathlib.Path` that does not exist yet.
        start: Prefix of the checkpoint to start from, which is copied; None: initial values.
        warm_start_from: As for `tf.estimator.Estimator`.

    Attributes:
        losses: The loss of each step.
        start: Prefix of a copy of the checkpoint that training started from.
        is_finite: Whether training reached its end; a NaN loss ends it early.
    """

    def __init__(
        self,
        model: Model,
        task: Task,
        directory: pathlib.Path,
        start: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        self._directory = directory
        self._model = model
        self.losses: list[Any] = []
        self.start: str | None = None
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

    def train(self, batches: Batches, on_values: Callable[[int, dict[str, Any]], None]) -> None:
        """Trains one step with each batch.

        Args:
            batches: The `Batches`.
            on_values: Function that is called before the first step and after each step. It takes
                the number of finished steps, and a dict of the values of all global variables by
                name.
        """

        def on_start() -> None:
            # Initialization may read a batch, to check its rows; restoring a checkpoint does not.
            batches.begin_again()
            self.start = _copy_checkpoint(
                tf.train.latest_checkpoint(self._estimator.model_dir), self._directory / "start"
            )

        hook = _Observer(self._model, len(batches), self.losses, on_start, on_values)
        try:
            self._estimator.train(batches.input_fn(repeated=True), hooks=[hook])
        except tf.train.NanLossDuringTrainingError:
            self.is_finite = False

    def evaluate(self, batches: Batches) -> dict[str, Any]:
        """Returns the metrics of the batches, a dict."""
        return self._estimator.evaluate(batches.input_fn())

    def predict(self, batches: Batches) -> Iterator[dict[str, Any]]:
        """Yields a dict of arrays for each batch."""
        for found in self._estimator.predict(batches.input_fn(), yield_single_examples=False):
            found = found if isinstance(found, dict) else {"predictions": found}
            if not found:  # Without fetches no batch is read, so that prediction never ends.
                raise ValueError("`predictions` must hold a tensor, but is {}")
            # Estimators with several heads have pairs of strings as keys.
            yield {
                "/".join(map(str, key)) if isinstance(key, tuple) else str(key): value
                for key, value in found.items()
            }

    def checkpoint(self) -> dict[str, Any]:
        """Returns the arrays of the last checkpoint, by name."""
        reader = tf.train.load_checkpoint(self._estimator.latest_checkpoint())
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


class _Observer(tf.train.SessionRunHook):
    def __init__(
        self,
        model: Model,
        steps: int,
        losses: list[Any],
        on_start: Callable[[], None],
        on_values: Callable[[int, dict[str, Any]], None],
    ) -> None:
        self._model = model
        self._steps = steps
        self._losses = losses
        self._on_start = on_start
        self._on_values = on_values

    def begin(self) -> None:
        self._reads = {
            variable.op.name: variable.read_value()
            for variable in tf.global_variables()
            if isinstance(getattr(variable, "op", None), tf.Operation)
        }

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._read(session)

    def before_run(self, run_context: Any) -> Any:
        if not self._losses:  # By now, the Estimator has saved the initial checkpoint.
            self._on_start()
        return tf.train.SessionRunArgs(self._model.spec.loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._losses.append(run_values.results)
        self._read(run_context.session)
        if len(self._losses) >= self._steps:
            run_context.request_stop()

    def _read(self, session: Any) -> None:
        values = session.run(self._reads)
        values = {name: comparable(value) for name, value in values.items()}
        self._on_values(len(self._losses), values)


def _copy_checkpoint(prefix: Any, directory: pathlib.Path) -> str:
    """Copies a checkpoint into a directory, as its latest; returns the prefix of the copy."""
    if prefix is None:
        raise ValueError(
            "A run must write its checkpoints in its `model_dir`, so that the other can start from "
            "the first, but there is none. Drop the `CheckpointSaverHook` from the spec that "
            "`model_fn` returns."
        )
    directory.mkdir(exist_ok=True)
    name = pathlib.PurePath(prefix).name
    for path in tf.gfile.Glob(f"{prefix}.index") + tf.gfile.Glob(f"{prefix}.data-*"):
        tf.gfile.Copy(path, str(directory / (name + path[len(str(prefix)) :])), overwrite=True)
    (directory / "checkpoint").write_text(f"model_checkpoint_path: {json.dumps(name)}\n")
    return str(directory / name)


class Store:
    """Stores arrays of one run on disk; they are read one step at a time.

    Args:
        directory: A `pathlib.Path`.
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        directory.mkdir()
        self.largest: dict[str, float] = {}
        """By name, the absolute value of the largest entry over all numbers."""

    def write(self, number: int, arrays: dict[str, Any]) -> None:
        """Stores a dict of arrays under a number."""
        for name, array in arrays.items():
            self.largest[name] = max(largest_of(array), self.largest.get(name, 0.0))
        names = [*arrays]
        values = {f"array{index}": arrays[name] for index, name in enumerate(names)}
        # Strings are Python objects, so they are pickled. It is safe: only this class writes here.
        np.savez(self._path(number), names=np.array(names, dtype=object), **values)

    def read(self, number: int) -> dict[str, Any] | None:
        """Returns the dict of arrays under a number, None if there is none."""
        if not self._path(number).exists():
            return None
        with np.load(self._path(number), allow_pickle=True) as file:
            names = file["names"].tolist()
            return {name: file[f"array{index}"] for index, name in enumerate(names)}

    def _path(self, number: int) -> pathlib.Path:
        return self._directory / f"{number:06d}.npz"


class RandomState:
    """Saves the state of Python's and NumPy's random numbers, so that both runs draw the same.

    On some versions Keras' initializers draw their seeds there, and `model_fn` may use them, too.
    """

    def __init__(self) -> None:
        self._states = random.getstate(), np.random.get_state()

    def restore(self) -> None:
        """Restores the saved state."""
        random.setstate(self._states[0])
        np.random.set_state(self._states[1])
