"""Describes a machine for a report: versions, names of devices, drivers and links."""

from __future__ import annotations

import platform
import shutil
import subprocess
from typing import Any, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from replicate.bench import harness
from replicate.compat import estimator
from replicate.version import __version__

UNKNOWN = "not known"
_DRIVER = ("--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
_SMI_S = 20  # Timeout of `nvidia-smi`, in seconds.


def facts() -> dict[str, str]:
    """Returns versions, the processor and the date, by name."""
    found = harness.machine()
    built: Any = getattr(tf.sysconfig, "get_build_info", dict)()
    return {
        "replicate": " ".join(filter(None, (__version__, found["commit"]))),
        "Python": platform.python_version(),
        "TensorFlow": tf.__version__,
        "built for CUDA": str(built.get("cuda_version", UNKNOWN)),
        "built for cuDNN": str(built.get("cudnn_version", UNKNOWN)),
        "NumPy": np.__version__,
        "Estimator": estimator.source(),
        "system": platform.platform(),
        "processor": f"{found['cpu']}, {found['cores']} cores",
        "date": found["date"],
    }


def names_of(devices: Sequence[str]) -> dict[str, str]:
    """Returns the product name of each device, by canonical name."""
    details = getattr(tf.config.experimental, "get_device_details", None)
    gpus = tf.config.experimental.list_physical_devices("GPU")
    named = {}
    for device in devices:
        spec = tf.DeviceSpec.from_string(device)
        if spec.device_type != "GPU":
            named[device] = "a part of the processor"
        elif details is None or spec.device_index >= len(gpus):
            named[device] = UNKNOWN
        else:
            named[device] = _described(details(gpus[spec.device_index]))
    return named


def _described(details: dict[str, Any]) -> str:
    name = str(details.get("device_name", UNKNOWN))
    capability = ".".join(map(str, details.get("compute_capability", ())))
    return f"{name}, compute capability {capability}" if capability else name


def nvidia_smi() -> dict[str, str]:
    """Returns the output of `nvidia-smi` on drivers and on links, by topic; {} without the tool."""
    if shutil.which("nvidia-smi") is None:
        return {}
    asked = {"drivers": _DRIVER, "links": ("topo", "-m")}
    return {name: _said(arguments) for name, arguments in asked.items()}


def _said(arguments: Sequence[str]) -> str:
    try:
        made = subprocess.run(
            ["nvidia-smi", *arguments], capture_output=True, text=True, timeout=_SMI_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    return made.stdout.rstrip() or UNKNOWN
