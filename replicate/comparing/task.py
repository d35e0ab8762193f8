"""Checks and completes the arguments of `replicate.compare`."""

from __future__ import annotations

import math
import numbers
from typing import Any, Callable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate import devices as devices_lib
from replicate.compat import environment, estimator
from replicate.model_fn import replicate_model_fn

_TWO_CPUS = ("/cpu:0", "/cpu:1")


class Task(NamedTuple):
    """Describes a comparison."""

    model_fn: Callable[..., Any]
    """The function that towers run, not yet replicated."""
    original: Callable[..., Any]
    """The function that one device runs."""
    input_fn: Callable[..., Any]
    """The input to train with."""
    eval_input_fn: Callable[..., Any] | None
    """The input to evaluate and predict with; None: the training batches."""
    params: Any
    config: Any
    """The `RunConfig` of both runs, except for its `model_dir`."""
    devices: tuple[str, ...]
    """Canonical names, one for each tower."""
    steps: int
    checkpoint_path: str | None
    """The checkpoint from which both start; None for initial values."""
    warm_start_from: Any
    tolerance: float | None
    options: dict[str, Any]
    """Further arguments of `replicate_model_fn`."""

    @property
    def summed(self) -> bool:
        """Whether the losses of towers are added up."""
        is_sum = self.options.get("loss_reduction") == tf.losses.Reduction.SUM
        return is_sum and bool(self.options.get("per_tower"))

    def replicated(self, model_fn: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a `model_fn`, replicated over the devices."""
        return replicate_model_fn(model_fn, devices=list(self.devices), **self.options)


def make_task(
    model_fn: Any,
    input_fn: Any,
    params: Any = None,
    config: Any = None,
    devices: Any = None,
    steps: Any = 5,
    eval_input_fn: Any = None,
    original: Any = None,
    checkpoint_path: Any = None,
    warm_start_from: Any = None,
    tolerance: Any = None,
    options: dict[str, Any] | None = None,
) -> Task:
    """Returns the `Task` that the arguments of `replicate.compare` describe.

    Raises:
        TypeError: If a function cannot be called, `steps` or `tolerance` is not a number, `config`
            is not a `RunConfig`, or `replicate_model_fn` raises it because of the options.
        ValueError: If `replicate_model_fn` raises it because of the options, `model_fn` is
            replicated already, `config` is for a cluster or a strategy, there are not several
            devices, or no checkpoint at `checkpoint_path`.
        ImportError: If the Estimator cannot work in this process. The message says what to run.
    """
    environment.check_estimator()
    original = model_fn if original is None else original
    functions = {"model_fn": model_fn, "original": original, "input_fn": input_fn}
    if eval_input_fn is not None:
        functions["eval_input_fn"] = eval_input_fn
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"`{name}` to compare with must be a function, but is {function!r}.")
        if getattr(function, "is_replicated", False):
            raise ValueError(
                f"`{name}` must be the function of one device, but is a result of "
                "`replicate_model_fn`. Pass the plain function; it may use `TowerOptimizer`."
            )
    is_whole = isinstance(steps, numbers.Integral) and not isinstance(steps, bool)
    if not is_whole or steps < 1:
        raise TypeError(
            f"`steps` to compare must be a whole number >= 1, but is {steps!r}. Pass e.g. 5."
        )
    is_number = tolerance is None or isinstance(tolerance, numbers.Real)
    if not is_number or (tolerance is not None and not 0 < tolerance < math.inf):
        raise TypeError(
            f"`tolerance` must be a finite number greater than 0, but is {tolerance!r}. Leave it "
            "out to choose it by the types that the model computes in."
        )
    config = estimator.RunConfig() if config is None else config
    _check_config(config)
    devices = _devices(devices, config)
    config = config.replace(
        session_config=_session_config(devices, config.session_config),
        # Without a seed, each run would draw different numbers.
        tf_random_seed=1 if config.tf_random_seed is None else config.tf_random_seed,
        save_checkpoints_steps=10**9,  # Only the first and the last checkpoint are needed.
        keep_checkpoint_max=5,
    )
    asked = Task(
        model_fn,
        original,
        input_fn,
        eval_input_fn,
        params,
        config,
        devices,
        int(steps),
        _checkpoint(checkpoint_path),
        warm_start_from,
        None if tolerance is None else float(tolerance),
        dict(options or {}),
    )
    asked.replicated(model_fn)  # Checks the options before anything is trained.
    return asked


def _check_config(config: Any) -> None:
    if not isinstance(config, estimator.RunConfig):
        raise TypeError(
            f"`config` must be a `RunConfig`, but is {config!r}. Pass `replicate.estimator."
            "RunConfig(...)`, or leave it out."
        )
    if config.num_worker_replicas > 1 or config.num_ps_replicas > 0:
        raise ValueError(
            "Towers are compared with one device in one process, but TF_CONFIG describes a cluster "
            f"of {config.num_worker_replicas} workers and {config.num_ps_replicas} parameter "
            "servers. Unset TF_CONFIG."
        )
    for name in ("train_distribute", "eval_distribute"):
        if getattr(config, name, None) is not None:
            raise ValueError(
                f"One device trains without a strategy, but the `RunConfig` has `{name}` "
                f"{type(getattr(config, name)).__name__}. Leave it out."
            )


def _devices(devices: Any, config: Any) -> tuple[str, ...]:
    if devices is None:
        devices = devices_lib.default(devices_lib.local(config.session_config))
        devices = devices if len(devices) > 1 else _TWO_CPUS
    names = devices_lib.canonical_list(devices)
    if len(names) < 2 or devices_lib.are_tpus(names):
        raise ValueError(
            "`devices` to compare with one device must be several GPUs or CPUs, but are "
            f"{', '.join(names)}. Pass e.g. ['/cpu:0', '/cpu:1']."
        )
    return tuple(names)


def _session_config(devices: Sequence[str], given: Any) -> Any:
    """Returns the user's session options, with the devices added."""
    options = devices_lib.session_config(devices, base=given)
    devices_lib.check_exist(devices, options)
    return options


def _checkpoint(path: Any) -> str | None:
    if path is None:
        return None
    path = str(path)
    # As for warm starts, a directory means its latest checkpoint.
    found = tf.train.latest_checkpoint(path) if tf.gfile.IsDirectory(path) else path
    if found is None or not tf.gfile.Exists(f"{found}.index"):
        raise ValueError(
            "`checkpoint_path` must name a checkpoint, or a directory that has one, but there is "
            f"none at {path!r}. Leave it out to start from initial values."
        )
    return found
