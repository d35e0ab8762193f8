"""Trains one case with one engine in this process and prints its figures as one JSON line.

An *engine* is a way to train an Estimator: `single` (one device, whole batch), `mirrored` and
`central` (tf.distribute's MirroredStrategy and CentralStorageStrategy) and `replicate`. Each runs
in a separate process, because thread pools, the allocator and the peak of resident memory belong
to a process.
"""

from __future__ import annotations

import collections
import json
import platform
import sys
import tempfile
import time
from typing import Any, Callable, Mapping, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate.bench import choices, harness, models
from replicate.bench.timer import StepTimer
from replicate.compat import estimator
from replicate.model_fn import replicate_model_fn
from replicate.tower_optimizer import TowerOptimizer
from replicate.version import __version__

# A `model_fn`, its `RunConfig`, and the number of elements that a step takes of a dataset.
_Engine = Tuple[Any, Any, int]
MODULE, _TIMEOUT_S = "replicate.bench.engines", 900


def run_config(devices: Sequence[str], strategy: tf.distribute.Strategy | None = None) -> Any:
    """Returns a `RunConfig` that saves and logs nothing, so that steps only train.

    The session's configuration is the same for all engines: the Estimator's default, with the
    logical devices.
    """
    config = tf.ConfigProto(allow_soft_placement=True, device_count={"CPU": _cpus(devices)})
    config.graph_options.rewrite_options.meta_optimizer_iterations = 1
    return estimator.RunConfig(
        tf_random_seed=models.SEED,
        session_config=config,
        train_distribute=strategy,
        save_summary_steps=None,
        save_checkpoints_steps=None,
        save_checkpoints_secs=None,
        log_step_count_steps=None,
    )


def _cpus(devices: Sequence[str]) -> int:
    """Returns the number of CPU devices that the session needs."""
    specs = [tf.DeviceSpec.from_string(name) for name in devices]
    return 1 + max([0, *(spec.device_index for spec in specs if spec.device_type == "CPU")])


def _single(case: models.Case, devices: Sequence[str], choice: choices.Choice) -> _Engine:
    del choice
    model_fn = models.make_model_fn(case, models.OPTIMIZERS[case.optimizer])

    def on_device(features: Any, labels: Any, mode: str) -> Any:
        with tf.device(devices[0]):
            return model_fn(features, labels, mode)

    # TensorFlow places operations on the default device anyway, except those without a kernel.
    alone = model_fn if devices_lib.is_default_device(devices[0]) else on_device
    return alone, run_config(devices[:1]), 1


def _distributed(
    case: models.Case,
    devices: Sequence[str],
    make_strategy: Callable[[Sequence[str]], tf.distribute.Strategy],
) -> _Engine:
    if "CPU" in devices[0]:
        # A strategy uses the devices of the eager runtime, while a session makes new ones.
        (cpu,) = tf.config.experimental.list_physical_devices("CPU")
        logical = [tf.config.experimental.VirtualDeviceConfiguration()] * _cpus(devices)
        tf.config.experimental.set_virtual_device_configuration(cpu, logical)
    strategy = make_strategy(devices)
    if strategy.num_replicas_in_sync != len(devices):
        raise RuntimeError(
            f"A strategy must hold one replica per tower, {len(devices)} of them, but "
            f"{type(strategy).__name__} holds {strategy.num_replicas_in_sync}. Check that "
            f"{devices} are distinct logical devices."
        )
    model_fn = models.make_model_fn(case, models.OPTIMIZERS[case.optimizer])
    return model_fn, run_config(devices, strategy), len(devices)


def _mirrored(case: models.Case, devices: Sequence[str], choice: choices.Choice) -> _Engine:
    del choice
    return _distributed(case, devices, lambda names: tf.distribute.MirroredStrategy(names))


def _central(case: models.Case, devices: Sequence[str], choice: choices.Choice) -> _Engine:
    del choice
    return _distributed(
        case,
        devices,
        lambda names: tf.distribute.experimental.CentralStorageStrategy(
            names, parameter_device=names[0]
        ),
    )


def _replicate(case: models.Case, devices: Sequence[str], choice: choices.Choice) -> _Engine:
    def make_optimizer() -> TowerOptimizer:
        optimizer = models.OPTIMIZERS[case.optimizer]()
        return TowerOptimizer(optimizer, **choices.optimizer_arguments(choice))

    model_fn = replicate_model_fn(
        models.make_model_fn(case, make_optimizer),
        devices=devices,
        **choices.model_fn_arguments(choice),
    )
    # The README recommends this configuration; it divides the cores among the towers.
    config = run_config(devices).replace(session_config=devices_lib.session_config(devices))
    return model_fn, config, 1


def check_choice(choice: choices.Choice, devices: Sequence[str]) -> None:
    """Raises a `ValueError` unless `replicate_model_fn` and `TowerOptimizer` take a choice."""
    try:
        optimizer = tf.train.GradientDescentOptimizer(1.0)
        TowerOptimizer(optimizer, **choices.optimizer_arguments(choice))
        replicate_model_fn(
            lambda features, labels, mode: None,
            devices=devices,
            **choices.model_fn_arguments(choice),
        )
    except (TypeError, ValueError) as error:
        raise ValueError(
            "A choice must name arguments that `replicate_model_fn` and `TowerOptimizer` take, "
            f"but {json.dumps(choice)} is not: {error}"
        ) from None


# By engine: a function of (case, devices, choice) that returns (model_fn, RunConfig, number of
# dataset elements in a batch).
ENGINES = {"single": _single, "mirrored": _mirrored, "central": _central, "replicate": _replicate}


def run(
    case: models.Case,
    engine: str,
    warmup: int,
    steps: int,
    devices: Sequence[str] | None = None,
    choice: choices.Choice | None = None,
    module: str = MODULE,
    tick: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Calls `measure` in a separate process, and returns its result.

    Args:
        case: As for `measure`.
        engine: As for `measure`.
        warmup: As for `measure`.
        steps: As for `measure`.
        devices: As for `measure`.
        choice: As for `measure`.
        module: The module to run: this one, or one that adds to `ENGINES` and calls `main`.
        tick: As `harness.run` takes it.

    Raises:
        RuntimeError: If the process fails, as it does when `measure` raises.
    """
    request: dict[str, Any] = {
        "case": case._asdict(),
        "engine": engine,
        "warmup": warmup,
        "steps": steps,
    }
    request.update(devices=devices, choice=choice)
    on_gpus = "GPU" in devices[0] if devices else False
    return harness.run(module, request, _TIMEOUT_S, sees_gpus=on_gpus, tick=tick)


def _check_devices(engine: str, devices: Sequence[str], kernels: Mapping[str, int]) -> None:
    """Raises a `RuntimeError` unless `kernels`, counts per device, are equal on all devices."""
    if len(kernels) != len(devices) or len(set(kernels.values())) != 1:
        raise RuntimeError(
            f"An engine must compute equally on each of its devices, here {devices}, but "
            f"`{engine}` ran these numbers of matrix products and convolutions: {dict(kernels)}. "
            "Check that the devices exist and are distinct."
        )


def measure(
    case: models.Case,
    engine: str,
    warmup: int,
    steps: int,
    devices: Sequence[str] | None = None,
    choice: choices.Choice | None = None,
) -> dict[str, Any]:
    """Trains `case` with `engine` and returns its figures.

    Args:
        case: The `models.Case` to train.
        engine: A key of `ENGINES`.
        warmup: Steps before the first timed one, at least 1.
        steps: Number of timed steps.
        devices: Canonical names of `case.towers` devices, all of one type; `single` takes the
            first. None: logical CPUs.
        choice: For the engine `replicate`, a choice as in `replicate.bench.choices`. None: the
            library's defaults.

    Returns:
        A dict ready for JSON. `step_ms_*` are percentiles over the timed steps of the time from
        the end of one step to the end of the next; `cores_used` is the CPU time of all threads
        per time of a timed step, dimensionless; `build_s` is the time from the call of `train`
        to the first call of a hook, before there is a session; `session_s` is the time from then
        until the session exists and variables are initialised; `first_step_s` is the time from the
        call of `train` to the end of the first step, including the session's creation and
        TensorFlow's processing of the graph before a first run; `transfers` and `bytes` count the
        tensors and bytes that a step sends between devices, `links` the bytes by pair of devices,
        and `all_reduced` the bytes that each all-reduce of a library summed on each device; the
        rest is as in `StepTimer`.

    Raises:
        RuntimeError: If the engine does not use each of its devices.
    """
    devices = devices or [f"/device:CPU:{index}" for index in range(case.towers)]
    devices = devices[:1] if engine == "single" else devices
    # The first device of a process fixes its thread pool, and strategies make devices before any
    # session: without this line strategies alone would ignore `intra_op_threads`.
    tf.config.threading.set_intra_op_parallelism_threads(case.intra_op_threads)
    model_fn, config, shares = ENGINES[engine](case, devices, choice or {})
    threads = case.intra_op_threads or config.session_config.intra_op_parallelism_threads
    config.session_config.intra_op_parallelism_threads = threads
    input_fn, timer = models.make_input_fn(case, shares), StepTimer(warmup + steps, devices)
    with tempfile.TemporaryDirectory() as model_dir:
        trained = estimator.Estimator(model_fn, model_dir, config)
        start = time.perf_counter()
        trained.train(input_fn, hooks=[timer], steps=warmup + steps + 1)
    _check_devices(engine, devices, timer.kernels)
    timed = slice(warmup - 1, warmup + steps - 1)
    step_ms = 1e3 * np.diff(timer.ended)[timed]
    cpu_ms = 1e3 * np.diff(timer.cpu)[timed]
    p10, p50, p90 = np.percentile(step_ms, [10, 50, 90])
    links: Any = collections.Counter()
    for sent in timer.sent:
        links[f"{sent.source} -> {sent.destination}"] += sent.size or 0
    return {
        "step_ms_p50": p50,
        "step_ms_p10": p10,
        "step_ms_p90": p90,
        "cores_used": cpu_ms.sum() / step_ms.sum(),
        "build_s": timer.began - start,
        "session_s": timer.created - timer.began,
        "first_step_s": timer.ended[0] - start,
        "ops_at_begin": timer.ops_at_begin,
        "ops_in_session": timer.ops_in_session,
        "ops_run": timer.ops_run,
        "peak_rss_mb": timer.peak_rss / 2**20,
        "peak_gpu_mb": timer.peak_gpu and timer.peak_gpu / 2**20,
        "transfers": len(timer.sent),
        "transfers_of_unknown_size": sum(sent.size is None for sent in timer.sent),
        "bytes": sum(links.values()),
        "links": dict(links),
        "all_reduced": timer.all_reduced,
        "losses": timer.losses,
        "tf": tf.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "replicate": __version__,
    }


def main(argv: Sequence[str]) -> None:
    """Prints the result of `measure` as JSON, for the request of `run` in `argv[0]`."""
    request = json.loads(argv[0])
    print(json.dumps(measure(models.Case(**request.pop("case")), **request)))


if __name__ == "__main__":
    main(sys.argv[1:])
