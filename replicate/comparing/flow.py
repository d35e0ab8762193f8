"""`replicate.compare`: runs a model on one device and over towers, from one start, on one input."""

from __future__ import annotations

import itertools
import os
import pathlib
import sys
import tempfile
from typing import Any, Callable, Iterable, TextIO

import tensorflow.compat.v1 as tf

from replicate.comparing import batches as batches_lib
from replicate.comparing import explanations, noise, runs, task
from replicate.comparing.comparison import Comparison, StepLoss
from replicate.comparing.deviations import Tally, deviation, tolerance_of
from replicate.comparing.logged import library_warnings
from replicate.compat import estimator


def compare(
    model_fn: Callable[..., tf.estimator.EstimatorSpec | tf.estimator.tpu.TPUEstimatorSpec],
    input_fn: Callable[..., Any],
    params: Any = None,
    config: tf.estimator.RunConfig | None = None,
    devices: Iterable[str] | None = None,
    steps: int = 5,
    *,
    eval_input_fn: Callable[..., Any] | None = None,
    original: Callable[..., Any] | None = None,
    checkpoint_path: str | os.PathLike[str] | None = None,
    warm_start_from: str | tf.estimator.WarmStartSettings | None = None,
    tolerance: float | None = None,
    file: TextIO | None = None,
    **options: Any,
) -> Comparison:
    """Trains a model on one device and over towers, compares the two, and prints a report.

        assert replicate.compare(model_fn, input_fn, params).equal

    One device runs `model_fn` as it is; towers run `replicate_model_fn(model_fn)`. Both start from
    one checkpoint and take the same batches, which are read from `input_fn` once and kept in
    memory. The report compares the loss of each step, all global variables at the start and after
    each step, the last checkpoint, and metrics and predictions of the trained models. It lists
    operations in the towers' graph that can explain a difference, with their lines: random numbers
    and fused batch norm.

    All files go to a temporary directory, even if `config` has a `model_dir`. Hooks of `model_fn`
    run, and write to their usual places. The variables of one device are stored in the temporary
    directory, a copy for each step.

    Args:
        model_fn: The function of one device, as for `tf.estimator.Estimator`; it may use
            `TowerOptimizer` and the rest of this library, but must not be replicated.
        input_fn: As for `tf.estimator.Estimator.train`; gives the global batch. At most `steps`
            batches are read.
        params: The `params` of `model_fn` and `input_fn`.
        config: The `RunConfig`. None: a default one. If its `tf_random_seed` is None, 1 is used.
        devices: Device names, one per tower. None: every local GPU, or every logical CPU device of
            the `config`; two logical CPU devices if that is only one.
        steps: Number of steps to train, an integer; each is one run of the session. Fewer if the
            input ends.
        eval_input_fn: The input to evaluate and predict with, `steps` batches at most. None: the
            training batches.
        original: The function that one device runs instead of `model_fn`, such as the code before
            it was changed for towers. None: `model_fn`.
        checkpoint_path: A checkpoint, or a directory whose latest checkpoint is used, from which
            both continue; it is copied. None: initial values.
        warm_start_from: As for `tf.estimator.Estimator`.
        tolerance: Largest deviation that counts as equal, a number. None: 1e-9 in float64, 1e-5 in
            float32, 1e-3 in float16 and 1e-2 in bfloat16, of the coarsest type that rows are
            computed in.
        file: A text file to print the report to. None: `sys.stdout`.
        **options: Further arguments of `replicate_model_fn`, such as `loss_reduction` or
            `variable_placement`.

    Returns:
        The `Comparison`. Its `.equal` tells whether all deviations are within the tolerance.

    Raises:
        TypeError: If a function cannot be called, `steps` or `tolerance` is not a number, or
            `config` is not a `RunConfig`.
        ValueError: If `model_fn` is replicated already, `config` is for a cluster or a strategy,
            there are not several devices, no checkpoint at `checkpoint_path`, or no batch.
        ImportError: If the Estimator cannot work in this process. The message says what to run.
    """
    asked = task.make_task(
        model_fn,
        input_fn,
        params,
        config,
        devices,
        steps,
        eval_input_fn,
        original,
        checkpoint_path,
        warm_start_from,
        tolerance,
        options,
    )
    made = run(asked)
    print(made, file=sys.stdout if file is None else file)
    return made


def run(asked: task.Task) -> Comparison:
    """Runs the comparison that a `Task` describes; returns the `Comparison`."""
    modes = estimator.ModeKeys
    given = asked.params, asked.config
    batches = batches_lib.read(asked.input_fn, modes.TRAIN, *given, asked.steps)
    measured = batches
    if asked.eval_input_fn is not None:
        measured = batches_lib.read(asked.eval_input_fn, modes.EVAL, *given, asked.steps)
    random_state = runs.RandomState()
    with tempfile.TemporaryDirectory(prefix="replicate_compare_") as name:
        directory = pathlib.Path(name)
        alone = _OneDevice(asked, batches, measured, directory)
        random_state.restore()
        towers = _OverTowers(asked, alone, directory)
        towers.train(batches)
        towers.measure(measured)
        made = towers.comparison(batches.rows)
        if made.equal or not all(loss.deviation.passes for loss in made.losses):
            return made
        random_state.restore()
        again = directory / "in_reverse"
        return noise.allowed(
            made,
            noise.of_one_device(asked, alone.run, alone.values, batches, again, towers.coarsest),
        )


class _OneDevice:
    """The run on one device, with its results stored for comparison with towers."""

    def __init__(
        self,
        asked: task.Task,
        batches: batches_lib.Batches,
        measured: batches_lib.Batches,
        directory: pathlib.Path,
    ) -> None:
        self.values = runs.Store(directory / "values")
        self.predictions = runs.Store(directory / "predictions")
        self.model = runs.one_device_model(asked)
        self.run = runs.Run(
            self.model,
            asked,
            directory / "one_device",
            asked.checkpoint_path,
            asked.warm_start_from,
        )
        self.run.train(batches, self.values.write)
        self.metrics: Any = None
        self.measures = self.predicts = False
        self.not_compared: list[str] = []
        if not self.run.is_finite:
            self.not_compared.append("metrics and predictions: the loss of one device is no number")
            return
        # If one device cannot evaluate or predict, there is no result to compare with.
        try:
            self.metrics = self.run.evaluate(measured)
        except Exception as error:
            self.not_compared.append(f"metrics: one device raises {_said(error)}")
        try:
            for number, found in enumerate(self.run.predict(measured), 1):
                self.predictions.write(number, found)
            self.predicts = True
        except Exception as error:
            self.not_compared.append(f"predictions: one device raises {_said(error)}")


class _OverTowers:
    """The run over towers, compared with one device as it goes."""

    def __init__(self, asked: task.Task, alone: _OneDevice, directory: pathlib.Path) -> None:
        self._asked = asked
        self._alone = alone
        self._model = runs.Model(asked.replicated(asked.model_fn))
        self._run = runs.Run(self._model, asked, directory / "towers", alone.run.start)
        self._tallies: dict[str, Tally] = {}
        # Variables that only one of the runs has, by name: pairs of dicts, one of them empty.
        self._lacking: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.coarsest = 0.0
        self._explanations: tuple[explanations.Explanation, ...] = ()
        self._warnings: tuple[str, ...] = ()
        self._not_compared = list(alone.not_compared)

    def train(self, batches: batches_lib.Batches) -> None:
        """Trains, and compares after each step."""
        with library_warnings() as warnings:
            self._run.train(batches, self._on_values)
        self._warnings = tuple(warnings)

    def _on_values(self, step: int, got: dict[str, Any]) -> None:
        if not step:  # The graph is complete by now.
            loss = tf.convert_to_tensor(self._model.spec.loss)
            found, types = explanations.look(self._model.spec)
            self._explanations = (*self._alone.model.explanations, *found)
            self.coarsest = tolerance_of(types or {loss.dtype.base_dtype.name})
        want = self._alone.values.read(step) or {}
        both = [name for name in want if name in got]
        if not step:
            for name in {*got, *want}.difference(both):
                self._lacking[name] = _only(name, got), _only(name, want)
        self._tally("variables").add(step, *({n: each[n] for n in both} for each in (got, want)))

    def _tally(self, part: str) -> Tally:
        if part not in self._tallies:
            stores = {"variables": self._alone.values, "predictions": self._alone.predictions}
            largest = stores[part].largest if part in stores else None
            self._tallies[part] = Tally(self._asked.tolerance, self.coarsest, largest)
        return self._tallies[part]

    def measure(self, batches: batches_lib.Batches) -> None:
        """Compares the last checkpoints, and metrics and predictions of the trained models."""
        alone = self._alone
        saved: set[str] = set()
        if alone.run.is_finite and self._run.is_finite:
            got, want = self._run.checkpoint(), alone.run.checkpoint()
            self._tally("checkpoint").add(None, got, want)
            saved = {*got} & {*want}
            if alone.metrics is not None:
                self._evaluate(batches)
            if alone.predicts:
                self._predict(batches)
        elif alone.run.is_finite:
            self._not_compared.append("metrics and predictions: the loss of towers is no number")
        for name, pair in self._lacking.items():
            # A variable of one device may be several in towers, but one in the checkpoint, whose
            # values are compared above.
            if name not in saved:
                self._tally("variables").add(0, *pair)

    def _evaluate(self, batches: batches_lib.Batches) -> None:
        with library_warnings() as warnings:
            metrics = self._run.evaluate(batches)
        self._tally("metrics").add(None, metrics, self._alone.metrics)
        self._warnings += tuple(one for one in warnings if one not in self._warnings)

    def _predict(self, batches: batches_lib.Batches) -> None:
        number = 0
        for number, found in enumerate(self._run.predict(batches), 1):
            want = self._alone.predictions.read(number) or {}
            self._tally("predictions").add(number, found, want)
        more = self._alone.predictions.read(number + 1)  # Towers may give fewer batches.
        if more is not None:
            self._tally("predictions").add(number + 1, {}, more)

    def comparison(self, rows: tuple[int | None, ...]) -> Comparison:
        """Returns the `Comparison`.

        Args:
            rows: The number of rows of each batch.
        """
        got, want = self._run.losses, self._alone.run.losses
        losses = _losses(got, want, self._asked.tolerance, self.coarsest)
        results: dict[str, Any] = {
            part: self._tallies[part].deviations() if part in self._tallies else ()
            for part in ("variables", "checkpoint", "metrics", "predictions")
        }
        return Comparison(
            devices=self._asked.devices,
            rows=rows,
            losses=losses,
            parted=self._tally("variables").parted,
            explanations=self._explanations,
            warnings=self._warnings,
            not_compared=tuple(self._not_compared),
            tolerance=losses[0].deviation.tolerance,
            **results,
        )


def _only(name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name]} if name in values else {}


def _losses(
    got: Iterable[Any], want: Iterable[Any], tolerance: float | None, coarsest: float
) -> tuple[StepLoss, ...]:
    """Returns a `StepLoss` for each step; the loss of a run that ended before the step is NaN."""
    made = []
    for step, (one, other) in enumerate(itertools.zip_longest(got, want), 1):
        found = deviation(f"the loss of step {step}", one, other, tolerance, coarsest)
        found = found._replace(step=None if found.passes else step)
        one, other = (float("nan") if value is None else float(value) for value in (one, other))
        made.append(StepLoss(step, other, one, found))
    return tuple(made)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
