"""Checks the devices of a machine, one thing after the other."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any, Callable, Iterator, Sequence

import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate.checking import machine, models, probe
from replicate.checking.report import Equality, Report, Way
from replicate.comparing import compare
from replicate.compat import estimator

# Towers on CPU devices deviate by up to 6e-7 here. cuDNN chooses how to convolve by the number of
# rows, and Winograd's and Fourier's ways round more.
TOLERANCES = {"float32": 1e-4, "float64": 1e-9}
WARMUP = 10
"""Steps before those that are timed."""


def run(
    devices: Sequence[str],
    names: Sequence[str],
    steps: int,
    timed: int,
    dtype: str,
    tolerance: float | None,
    say: Callable[[str], None],
) -> Report:
    """Checks devices; returns the `Report`. What fails is in it, so that the rest is checked, too.

    Args:
        devices: Canonical names of the towers' devices.
        names: Of `models.MODELS`.
        steps: To train each of them.
        timed: Steps to time of each way to gather gradients.
        dtype: Of `models.DTYPES`.
        tolerance: The largest deviation that counts as equal; None: that of the type.
        say: Function that is called with a line of what goes on.
    """
    limit = TOLERANCES[dtype] if tolerance is None else tolerance
    able = [name for name in names if dtype in models.MODELS[name].dtypes]
    with _quiet(), _exact_float32():
        equalities = []
        for name in able:
            say(f"training {name} on one device and over {len(devices)} towers")
            equalities.append(_equality(name, devices, steps, dtype, limit))
        say("training a dense network on one device")
        alone, problem = _tried(lambda: probe.train(None, devices, WARMUP, timed))
        ways = []
        for choice in probe.that_run_on(devices):
            say(f"timing {choice}")
            ways.append(_way(choice, devices, timed, alone, TOLERANCES["float32"]))
    return Report(
        facts=machine.facts(),
        devices=machine.names_of(devices),
        nvidia_smi=machine.nvidia_smi(),
        dtype=dtype,
        steps=steps,
        tolerance=limit,
        equalities=tuple(equalities),
        one_device=alone,
        one_device_problem=problem,
        ways=tuple(ways),
    )


def _equality(
    name: str, devices: Sequence[str], steps: int, dtype: str, tolerance: float
) -> Equality:
    model = models.MODELS[name]
    comparison, problem = _tried(
        lambda: compare(
            models.make_model_fn(name, dtype),
            models.make_input_fn(name, dtype, steps),
            # Where devices are logical ones, the Estimator's own sessions need them, too.
            config=estimator.RunConfig(session_config=devices_lib.session_config(devices)),
            devices=devices,
            steps=steps,
            tolerance=tolerance,
            file=io.StringIO(),
            **(model.options or {}),
        )
    )
    return Equality(name, model.title, comparison, problem)


def _way(choice: str, devices: Sequence[str], timed: int, alone: Any, tolerance: float) -> Way:
    trained, problem = _tried(lambda: probe.train(choice, devices, WARMUP, timed))
    deviation = None
    if trained is not None and alone is not None:
        deviation = probe.worst_deviation(trained, alone, tolerance)
    return Way(choice, trained, deviation, problem)


def _tried(function: Callable[[], Any]) -> tuple[Any, str]:
    """Returns what a function returns, and ""; or None, and what it raised.

    Machines fail in ways that nobody has seen here. A report of them is what is asked for.
    """
    try:
        return function(), ""
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        return None, f"{type(error).__name__}: {first}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A scope in which TensorFlow's log has errors alone: the report has what matters."""
    level = tf.logging.get_verbosity()
    tf.logging.set_verbosity("ERROR")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        tf.logging.set_verbosity(level)


@contextlib.contextmanager
def _exact_float32() -> Iterator[None]:
    """A scope in which GPUs multiply float32 as such, not with the 10 bits of TensorFloat-32."""
    enable = getattr(tf.config.experimental, "enable_tensor_float_32_execution", None)
    enabled = getattr(tf.config.experimental, "tensor_float_32_execution_enabled", None)
    if enable is None or enabled is None:  # TensorFlow that is older than it.
        yield
        return
    before = enabled()
    enable(False)
    try:
        yield
    finally:
        enable(before)
