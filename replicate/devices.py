"""Lists the devices of this process, and resolves names of devices.

Devices are named by canonical strings, `/device:GPU:0`. Nothing here starts a device: listing
devices allocates no GPU memory and opens no CUDA context.

GPUs are numbered as the process sees them: with `CUDA_VISIBLE_DEVICES=2,0`, `/gpu:0` is the third
GPU of the host and `/gpu:1` its first; with an empty string or -1, there is none.
`gpu_options.visible_device_list` selects and renumbers the GPUs of a session among these. The
session also controls memory, by `gpu_options.allow_growth` and `per_process_gpu_memory_fraction`.
"""

from __future__ import annotations

import collections.abc
import contextlib
import os
import re
from typing import Any, Iterable, Sequence

import tensorflow.compat.v1 as tf

from replicate.clusters import cluster


def canonical(device: str | tf.DeviceSpec | Any) -> str:
    """Returns the canonical string of a device.

    Args:
        device: A name like `/gpu:0`, `GPU:0`, `/device:GPU:0` or `/job:worker/task:1/gpu:0`, a
            `tf.DeviceSpec`, or an object whose `name` is such a name.

    Returns:
        String that names job and task if `device` does, type and index.

    Raises:
        ValueError: If `device` does not name one device.
    """
    name = device if isinstance(device, str) else getattr(device, "name", None)
    if name is None and hasattr(device, "to_string"):
        name = device.to_string()
    spec = None
    if isinstance(name, str):
        with contextlib.suppress(ValueError):
            name = name.replace("physical_device:", "device:")
            # TensorFlow 1.15 knows short names of CPUs and GPUs only.
            name = re.sub("(^|/)tpu:", "/device:TPU:", name, flags=re.IGNORECASE)
            spec = tf.DeviceSpec.from_string(name)
    if spec is None or spec.device_type is None or spec.device_index is None:
        raise ValueError(
            f"A device is named by its type and index, like '/gpu:0', but got {device!r}."
        )
    if spec.job == "localhost":  # The job of sessions without a cluster.
        spec = spec.replace(job=None, replica=None, task=None)
    return spec.replace(device_type=spec.device_type.upper()).to_string()


def canonical_list(devices: Iterable[str | tf.DeviceSpec | Any]) -> list[str]:
    """Returns the canonical strings of `devices`.

    Raises:
        ValueError: If there are none, one occurs twice, or one does not name a device.
    """
    if isinstance(devices, str) or not isinstance(devices, collections.abc.Iterable):
        raise ValueError(
            f"`devices` must be a list of device names, but is {devices!r}. Pass e.g. "
            "['/gpu:0', '/gpu:1']."
        )
    devices = list(devices)
    names = [canonical(device) for device in devices]
    if not names:
        raise ValueError(
            "`devices` must name at least one device, but is empty. Pass None for every local GPU, "
            "or every local CPU device if there is none."
        )
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(
            f"`devices` must name each device once, but {', '.join(duplicates)} is there more than "
            f"once in {devices}. To run several towers on one CPU, split it into logical "
            "devices: '/cpu:0', '/cpu:1', with `session_config=replicate.session_config(devices)`."
        )
    return names


def local(config: tf.ConfigProto | None = None) -> list[str]:
    """Returns the canonical strings of the devices that sessions of this process have.

    Args:
        config: The `tf.ConfigProto` of the sessions, which says how many logical CPU devices there
            are and may hide GPUs. None: one CPU device, every GPU.
    """
    counts = dict(config.device_count) if config is not None else {}
    physical = {"CPU": counts.get("CPU", 1)}
    for device in tf.config.experimental.list_physical_devices():
        # TensorFlow 1.15 lists each device a second time, as one of XLA.
        if device.device_type != "CPU" and not device.device_type.startswith("XLA_"):
            physical[device.device_type] = physical.get(device.device_type, 0) + 1
    if config is not None and config.gpu_options.visible_device_list:
        physical["GPU"] = len(config.gpu_options.visible_device_list.split(","))
    names = []
    for kind, count in sorted(physical.items()):
        names += [f"/device:{kind}:{index}" for index in range(min(count, counts.get(kind, count)))]
    return names


def default(available: Iterable[str]) -> list[str]:
    """Returns every GPU of the device strings `available`, every CPU device if there is none."""
    gpus = [name for name in available if _kind(name) == "GPU"]
    return gpus or [name for name in available if _kind(name) == "CPU"]


def are_tpus(devices: Sequence[str]) -> bool:
    """Whether the device strings name TPU cores.

    Raises:
        ValueError: If some do and some do not.
    """
    tpus = [name for name in devices if _kind(name) == "TPU"]
    if tpus and len(tpus) < len(devices):
        others = [name for name in devices if name not in tpus]
        raise ValueError(
            "`devices` must be all TPU cores or none, but "
            f"{', '.join(tpus)} {'is' if len(tpus) == 1 else 'are'} and {', '.join(others)} not. "
            "A model trains on either."
        )
    return bool(tpus)


def check_exist(
    devices: Iterable[str], config: tf.ConfigProto | None = None, cpus_known: bool = True
) -> None:
    """Raises unless the sessions have all of `devices`.

    Args:
        devices: Canonical strings. Those that name a job belong to a cluster and are not checked.
        config: The `tf.ConfigProto` of the sessions, or None.
        cpus_known: Whether `config` sets the number of CPU devices; else any may exist.

    Raises:
        ValueError: If one is missing. The message lists those that exist.
    """
    available = local(config)
    for name in devices:
        if name in available or "/job:" in name or (_kind(name) == "CPU" and not cpus_known):
            continue
        hint = "Pass devices that exist."
        if _kind(name) == "CPU":
            hint = (
                "Logical CPU devices exist if the session is told so: pass "
                "`session_config=replicate.session_config(devices)` to `RunConfig`."
            )
        raise ValueError(
            f"`devices` must exist, but {name} does not. Those that do: {', '.join(available)}. "
            + hint
        )


def is_default_device(name: str) -> bool:
    """Whether TensorFlow places operations without a device on device `name`."""
    return default(local())[0] == name


def session_config(
    devices: Iterable[str] | None = None, base: tf.ConfigProto | None = None, **kwargs: Any
) -> tf.ConfigProto:
    """Returns a session configuration under which `devices` exist.

        devices = ["/cpu:0", "/cpu:1"]
        config = replicate.estimator.RunConfig(session_config=replicate.session_config(devices))

    To keep an existing configuration, pass it as `base`.

    As in an Estimator's default, an operation without a kernel for its tower's device runs on a
    device that has one (`allow_soft_placement`), and the graph is optimized once. If all devices
    are CPU devices, and there are several, the graph is not optimized: TensorFlow's graph optimizer
    would process the operations of every tower, which takes half of the time until the first step,
    and steps would be no faster. To keep it, pass `graph_options`, if only `tf.GraphOptions()`, or
    a `base` with `rewrite_options`. On GPUs the optimizer chooses layouts and fuses operations, so
    it stays on.

    Logical CPU devices share the cores: with several of them, a kernel uses as many threads as
    there are cores for each device. TensorFlow makes its threads with a process's first device, and
    an Estimator makes one before its session. So the number is also set in `tf.config.threading`,
    unless it is set already or TensorFlow has its devices already.

    In a cluster with parameter servers, as TF_CONFIG describes it, a session waits only for these
    (`device_filters`), so that a worker can start while another one is down.

    Args:
        devices: Devices as for `replicate_model_fn`. None: every local GPU, else one CPU.
        base: A `tf.ConfigProto`, which is not changed. Its fields are kept, except that the number
            of CPU devices is raised if it is too small. None: an empty one.
        **kwargs: Further fields of `tf.ConfigProto`, e.g. `intra_op_parallelism_threads`; they have
            precedence over `base`.

    Returns:
        A `tf.ConfigProto`.

    Raises:
        TypeError: If `base` is not a `tf.ConfigProto`.
        ValueError: If a device other than a CPU does not exist, or `device_count` in `kwargs` is
            too small for the devices.
    """
    if base is not None and not isinstance(base, tf.ConfigProto):
        raise TypeError(
            f"`base` must be a `tf.ConfigProto`, or None, but is {base!r}. Pass the one that "
            "`RunConfig(session_config=...)` would take without towers."
        )
    names = default(local()) if devices is None else canonical_list(devices)
    cpus = [tf.DeviceSpec.from_string(name).device_index for name in names if _kind(name) == "CPU"]
    counts = {"CPU": 1 + max([0, *cpus]), **kwargs.pop("device_count", {})}
    fields = {
        "allow_soft_placement": True,
        "device_count": counts,
        "device_filters": cluster.device_filters(),
    }
    if len(cpus) > 1:
        # Towers compute at the same time: if each used all cores, kernels would compete for them.
        fields["intra_op_parallelism_threads"] = max(1, (os.cpu_count() or 1) // len(cpus))
    config = tf.ConfigProto(**fields)
    if base is not None:
        if base.device_filters:  # `MergeFrom` would append them to ours.
            del config.device_filters[:]
        config.MergeFrom(base)
        config.device_count["CPU"] = max(counts["CPU"], base.device_count["CPU"])
    config = _with_fields(config, kwargs)
    chosen = "graph_options" in kwargs or config.graph_options.HasField("rewrite_options")
    options = config.graph_options.rewrite_options
    options.meta_optimizer_iterations = options.meta_optimizer_iterations or options.ONE
    if 1 < len(cpus) == len(names) and not chosen:
        options.disable_meta_optimizer = True
    check_exist(names, config)
    if config.intra_op_parallelism_threads:
        _set_threads(config.intra_op_parallelism_threads)
    return config


def _with_fields(config: tf.ConfigProto, fields: dict[str, Any]) -> tf.ConfigProto:
    """Returns a configuration in which the given fields replace earlier values."""
    for name in fields:
        config.ClearField(name)
    config.MergeFrom(tf.ConfigProto(**fields))
    # `MergeFrom` skips fields with default values, but they may be a user's choice.
    for name, value in fields.items():
        if isinstance(value, (bool, int)):
            setattr(config, name, value)
    return config


def costs_time(names: Sequence[str], config: tf.ConfigProto | None) -> bool:
    """Whether towers on CPU devices run in a session without the options of `session_config`."""
    if config is None or len(names) < 2 or any(_kind(name) != "CPU" for name in names):
        return False
    return not config.graph_options.HasField("rewrite_options")


def _set_threads(number: int) -> None:
    """Sets the threads of the process's kernels, unless the user or TensorFlow already did.

    The number in a session's configuration comes too late in an Estimator. Its global step is read
    in a `tf.cond`, which starts TensorFlow's eager devices, and later sessions share their threads.
    """
    with contextlib.suppress(RuntimeError):  # TensorFlow has its devices already.
        if not tf.config.threading.get_intra_op_parallelism_threads():
            tf.config.threading.set_intra_op_parallelism_threads(number)


def _kind(name: str) -> str:
    return tf.DeviceSpec.from_string(name).device_type
