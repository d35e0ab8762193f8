"""Runs the checks of a machine's devices, one after the other."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any, Callable, Iterator, Sequence

import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate.checking import machine, models, probe
from replicate.checking.report import Equality, Report, Result
from replicate.comparing import compare
from replicate.compat import estimator

# In these models, towers on CPU devices deviate by up to 6e-7. cuDNN chooses its convolution
# algorithm by the number of rows, and Winograd's and Fourier's algorithms round more.
TOLERANCES = {"float32": 1e-4, "float64": 1e-9}
WARMUP = 10
"""Number of steps before the timed ones."""


def run(
    devices: Sequence[str],
    names: Sequence[str],
    steps: int,
    timed: int,
    dtype: str,
    tolerance: float | None,
    say: Callable[[str], None],
) -> Report:
    """Checks devices; returns the `Report`. Failures are reported there and do not end the check.

    Args:
        devices: Canonical names of the towers' devices.
        names: Names of models in `models.MODELS`.
        steps: Number of steps to train each of them.
        timed: Number of steps to time for each way to sum gradients.
        dtype: One of `models.DTYPES`.
        tolerance: The largest deviation that counts as equal; None: that of the type.
        say: Function that is called with a line about the progress.
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
        results = []
        for choice in probe.that_run_on(devices):
            say(f"timing {choice}")
            results.append(_result(choice, devices, timed, alone, TOLERANCES["float32"]))
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
        results=tuple(results),
    )


def _equality(
    name: str, devices: Sequence[str], steps: int, dtype: str, tolerance: float
) -> Equality:
    model = models.MODELS[name]
    comparison, problem = _tried(
        lambda: compare(
            models.make_model_fn(name, dtype),
            models.make_input_fn(name, dtype, steps),
            # The Estimator also makes sessions itself, which need the logical devices.
            config=estimator.RunConfig(session_config=devices_lib.session_config(devices)),
            devices=devices,
            steps=steps,
            tolerance=tolerance,
            file=io.StringIO(),
            **(model.options or {}),
        )
    )
    return Equality(name, model.title, comparison, problem)


def _result(
    choice: str, devices: Sequence[str], timed: int, alone: Any, tolerance: float
) -> Result:
    trained, problem = _tried(lambda: probe.train(choice, devices, WARMUP, timed))
    deviation = None
    if trained is not None and alone is not None:
        deviation = probe.worst_deviation(trained, alone, tolerance)
    return Result(choice, trained, deviation, problem)


def _tried(function: Callable[[], Any]) -> tuple[Any, str]:
    """Returns a function's result and ""; if it raises, None and the error as text.

    Any exception counts: machines may fail in unknown ways, and the report must show them.
    """
    try:
        return function(), ""
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        return None, f"{type(error).__name__}: {first}"


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """A scope in which TensorFlow logs errors only; the report has all other information."""
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
    if enable is None or enabled is None:  # A TensorFlow without TensorFloat-32.
        yield
        return
    before = enabled()
    enable(False)
    try:
        yield
    finally:
        enable(before)
