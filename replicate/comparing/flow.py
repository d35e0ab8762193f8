"""`replicate.compare`: one model on one device and over towers, from one start, on one input."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import pathlib
import sys
import tempfile
from typing import Any, Callable, Iterable, TextIO

import tensorflow.compat.v1 as tf

from replicate.comparing import batches as batches_lib
from replicate.comparing import explanations, runs, task
from replicate.comparing.comparison import Comparison, StepLoss
from replicate.comparing.deviations import Tally, deviation, tolerance_of
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

    One device runs `model_fn` as it is, towers what `replicate_model_fn` makes of it. Both start
    from one checkpoint and take the same batches, which are read from `input_fn` once and kept in
    memory. Compared are the loss of each step, all global variables at the start and after each
    step, the last checkpoint, and what the trained models measure and predict. What in the towers'
    graph can explain a difference is named with its line: random numbers, and fused batch norm.

    Everything is written into a temporary directory, whatever the `model_dir` of `config` is. Hooks
    of `model_fn` run, and write where they do. Values of one device lie there, a copy for each
    step.

    Args:
        model_fn: The function of one device, as `tf.estimator.Estimator` takes it; it may use
            `TowerOptimizer` and all else of this library, but is not replicated.
        input_fn: As `tf.estimator.Estimator.train` takes it, of the global batch. At most `steps`
            batches are read.
        params: The `params` of `model_fn` and `input_fn`.
        config: The `RunConfig`. None: a default one. If its `tf_random_seed` is None, it is 1.
        devices: Device names, one per tower. None: every local GPU, or every logical CPU device of
            the `config`; two logical CPU devices if that is one alone.
        steps: How many steps to train, each one run of the session. Fewer if the input ends.
        eval_input_fn: The input to evaluate and predict with, `steps` batches at most. None: the
            batches that were trained on.
        original: What one device runs instead, such as the code before it was changed for towers.
            None: `model_fn`.
        checkpoint_path: A checkpoint, or a directory of which the last one is taken, from which
            both continue; it is copied. None: initial values.
        warm_start_from: As of `tf.estimator.Estimator`.
        tolerance: Largest deviation that counts as equal. None: 1e-9 in float64, 1e-5 in float32,
            1e-3 in float16 and 1e-2 in bfloat16, of the coarsest type that rows are computed in.
        file: Where the report is printed. None: `sys.stdout`.
        **options: Further arguments of `replicate_model_fn`: `loss_reduction`,
            `variable_placement` and so on.

    Returns:
        The `Comparison`, of which `.equal` says whether all deviations are within the tolerance.

    Raises:
        TypeError: If a function is none, `steps` or `tolerance` no number, or `config` no
            `RunConfig`.
        ValueError: If `model_fn` is replicated already, `config` is for a cluster or a strategy,
            there are not several devices, no checkpoint where `checkpoint_path` says, or no batch.
        ImportError: If the Estimator cannot work in this process. The message says what to run.
    """
    asked = task.of(
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
    """Makes the comparison that a `Task` asks for; returns the `Comparison`."""
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
        return towers.comparison(batches.rows)


class _OneDevice:
    """The run on one device: what it left, for the other to be compared with."""

    def __init__(self, asked, batches, measured, directory):
        self.values = runs.Store(directory / "values")
        self.predictions = runs.Store(directory / "predictions")
        self.run = runs.Run(
            runs.of_one_device(asked),
            asked,
            directory / "one_device",
            asked.checkpoint_path,
            asked.warm_start_from,
        )
        self.run.train(batches, self.values.write)
        self.metrics = None
        self.measures = self.predicts = False
        self.not_compared = []
        if not self.run.is_finite:
            self.not_compared.append("metrics and predictions: the loss of one device is no number")
            return
        # A model that cannot do so on one device cannot be compared in it.
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

    def __init__(self, asked, alone, directory):
        self._asked = asked
        self._alone = alone
        self._model = runs.Model(asked.replicated(asked.model_fn))
        self._run = runs.Run(self._model, asked, directory / "towers", alone.run.start)
        self._tallies = {}
        self._lacking = {}  # By name: what variables only one of the two has, as pairs of dicts.
        self._coarsest = 0.0
        self._explanations = self._warnings = ()
        self._not_compared = list(alone.not_compared)

    def train(self, batches):
        """Trains, and compares after each step."""
        with _library_warnings() as warnings:
            self._run.train(batches, self._on_values)
        self._warnings = tuple(warnings)

    def _on_values(self, step, got):
        if not step:
            loss = tf.convert_to_tensor(self._model.spec.loss)
            self._explanations, types = explanations.look(self._model.spec)
            self._coarsest = tolerance_of(types or {loss.dtype.base_dtype.name})
        want = self._alone.values.read(step) or {}
        both = [name for name in want if name in got]
        if not step:
            for name in {*got, *want}.difference(both):
                self._lacking[name] = _only(name, got), _only(name, want)
        self._tally("variables").add(step, *({n: each[n] for n in both} for each in (got, want)))

    def _tally(self, part):
        if part not in self._tallies:
            stores = {"variables": self._alone.values, "predictions": self._alone.predictions}
            largest = stores[part].largest if part in stores else None
            self._tallies[part] = Tally(self._asked.tolerance, self._coarsest, largest)
        return self._tallies[part]

    def measure(self, batches):
        """Compares what the last checkpoints hold, and what the trained models make of batches."""
        alone, saved = self._alone, set()
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
            # Towers have variables of their own for what is one in the checkpoint.
            if name not in saved:
                self._tally("variables").add(0, *pair)

    def _evaluate(self, batches):
        with _library_warnings() as warnings:
            metrics = self._run.evaluate(batches)
        self._tally("metrics").add(None, metrics, self._alone.metrics)
        self._warnings += tuple(one for one in warnings if one not in self._warnings)

    def _predict(self, batches):
        number = 0
        for number, found in enumerate(self._run.predict(batches), 1):
            want = self._alone.predictions.read(number) or {}
            self._tally("predictions").add(number, found, want)
        more = self._alone.predictions.read(number + 1)
        if more is not None:
            self._tally("predictions").add(number + 1, {}, more)

    def comparison(self, rows):
        """Returns the `Comparison`, of batches of so many rows."""
        got, want = self._run.losses, self._alone.run.losses
        losses = _losses(got, want, self._asked.tolerance, self._coarsest)
        results = {
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


def _only(name, values):
    return {name: values[name]} if name in values else {}


def _losses(got, want, tolerance, coarsest):
    """Returns a `StepLoss` of each step; where a run has ended before, its loss is no number."""
    made = []
    for step, (one, other) in enumerate(itertools.zip_longest(got, want), 1):
        found = deviation(f"the loss of step {step}", one, other, tolerance, coarsest)
        found = found._replace(step=None if found.passes else step)
        one, other = (float("nan") if value is None else float(value) for value in (one, other))
        made.append(StepLoss(step, other, one, found))
    return tuple(made)


def _said(error):
    return f"{type(error).__name__}: {error}".splitlines()[0]


@contextlib.contextmanager
def _library_warnings():
    """A scope that gives a list, to which the library's own warnings are added."""
    messages, logger = [], tf.get_logger()
    level = logger.level

    def take(record):
        message = record.getMessage()
        if message.startswith("replicate: ") and record.levelno >= logging.WARNING:
            messages.append(message)
        return record.levelno >= level

    logger.addFilter(take)
    # Who hears less in the log still wants them in the report.
    logger.setLevel(min(level, logging.WARNING))
    try:
        yield messages
    finally:
        logger.removeFilter(take)
        logger.setLevel(level)
