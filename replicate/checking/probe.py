"""Trains a model with one of the ways to sum gradients; measures time, memory and placements."""

from __future__ import annotations

import tempfile
from typing import Any, NamedTuple, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate.bench import choices, engines, models, timer
from replicate.checking import placements
from replicate.comparing import deviation
from replicate.compat import estimator

ROWS = 128
"""Rows of the batch on each device."""
CHOICES = (
    "default",
    "round_robin_variables",
    "round_robin",
    "replicated",
    "replicated_in_turn",
    "prefetched",
    "nccl",
)
"""Choices of `replicate.bench.choices` with the same result: without those in half precision."""


class Trained(NamedTuple):
    """The results of a run."""

    losses: list[float]
    variables: dict[str, Any]
    """Arrays of all variables and replicas after the last step, by name."""
    step_ms: tuple[float, float, float]
    """Milliseconds of a step: the median, 10th and 90th percentile."""
    peaks: dict[str, int | None]
    """The most bytes that tensors took on each device; None if not known."""
    placements: placements.Placements | None
    """The `Placements` of the last step; None on one device."""


def that_run_on(devices: Sequence[str]) -> list[str]:
    """Returns the names of `CHOICES` that run on all of the devices."""
    kind = "GPU" if all("GPU" in name for name in devices) else "CPU"
    return [name for name in choices.that_run_on(kind) if name in CHOICES]


def train(choice: str | None, devices: Sequence[str], warmup: int, steps: int) -> Trained:
    """Trains the dense network of the benchmarks.

    Args:
        choice: A name of `CHOICES`; None: on the first device alone.
        devices: Canonical names.
        warmup: Number of steps before the first timed one.
        steps: Number of timed steps.
    """
    # Plain gradient descent neither shrinks nor enlarges an error of a gradient.
    case = models.CASES["mlp"]._replace(
        towers=len(devices), global_batch=ROWS * len(devices), optimizer="SGD"
    )
    engine = "single" if choice is None else "replicate"
    options = choices.CHOICES[choice or "default"]
    model_fn, config, shares = engines.ENGINES[engine](case, list(devices), options)
    # A session without the other devices would make TensorFlow set up its threads again.
    config = config.replace(session_config=devices_lib.session_config(devices))
    asked = choices.model_fn_arguments(options).get("variable_placement", "consolidation")
    hook = _Probe(warmup + steps, [] if choice is None else devices, asked)
    for name in devices:
        _reset_peak(name)
    with tempfile.TemporaryDirectory() as model_dir:
        made = estimator.Estimator(_on_resources(model_fn), model_dir, config)
        made.train(models.make_input_fn(case, shares), hooks=[hook], steps=warmup + steps + 1)
    step_ms = 1e3 * np.diff(hook.ended)[warmup - 1 : warmup + steps - 1]
    p50, p10, p90 = (float(each) for each in np.percentile(step_ms, [50, 10, 90]))
    peaks = {name: peak(name) for name in devices}
    return Trained(hook.losses, hook.values, (p50, p10, p90), peaks, hook.placements)


def _on_resources(model_fn: Any) -> Any:
    """Returns a `model_fn` whose variables are resources: only these can have replicas."""

    def model_fn_on_resources(features: Any, labels: Any, mode: str) -> Any:
        with tf.variable_scope("", use_resource=True):  # TensorFlow 1's default is references.
            return model_fn(features, labels, mode)

    return model_fn_on_resources


def worst_deviation(got: Trained, want: Trained, tolerance: float) -> Any:
    """Returns the largest `Deviation` of a loss, variable or replica from one device."""
    pairs: list[tuple[str, Any, Any]] = [
        (f"the loss of step {step}", one, other)
        for step, (one, other) in enumerate(zip(got.losses, want.losses), 1)
    ]
    for name, value in got.variables.items():
        # A replica must equal its variable.
        plain = name.split("/", 2)[2] if name.startswith("replicate/tower_") else name
        pairs.append((name, value, want.variables.get(plain)))
    pairs += [(name, None, v) for name, v in want.variables.items() if name not in got.variables]
    found = [deviation(name, one, other, tolerance) for name, one, other in pairs]
    return max(found, key=lambda each: each.excess)


def peak(device: str) -> int | None:
    """Returns the most bytes that tensors took on a device; None if TensorFlow does not tell."""
    info = getattr(tf.config.experimental, "get_memory_info", None)
    if info is None or "GPU" not in device:
        return None
    try:
        return int(info(device.rpartition("device:")[2])["peak"])
    except (KeyError, ValueError, tf.errors.OpError):
        return None


def _reset_peak(device: str) -> None:
    reset = getattr(tf.config.experimental, "reset_memory_stats", None)
    # A TensorFlow without this function gives the peak of all runs so far.
    if reset is not None and peak(device) is not None:
        reset(device.rpartition("device:")[2])


class _Probe(timer.StepTimer):
    """Times steps, and reads variables and placements after the last one, which is traced.

    Attributes:
        values: Arrays of variables and replicas, by name, after the last step.
        placements: The `Placements` of the last step; None without devices.
    """

    def __init__(self, timed_steps: int, devices: Sequence[str], placement: str) -> None:
        super().__init__(timed_steps, [])
        self._asked = list(devices), placement
        self.values: dict[str, Any] = {}
        self.placements: placements.Placements | None = None

    def begin(self) -> None:
        super().begin()
        replicas = [v for v in tf.local_variables() if v.op.name.startswith("replicate/tower_")]
        variables = [*tf.global_variables(), *replicas]
        self._reads = {variable.op.name: variable.read_value() for variable in variables}
        self._trained = [variable.op.name for variable in tf.trainable_variables()]

    def after_run(self, run_context: Any, run_values: Any) -> None:
        super().after_run(run_context, run_values)
        if len(self.ended) <= self._timed_steps:
            return
        self.values = run_context.session.run(self._reads)
        devices, placement = self._asked
        if devices:
            nodes = placements.nodes_of(run_values.run_metadata)
            self.placements = placements.look(nodes, devices, placement, self._trained)
