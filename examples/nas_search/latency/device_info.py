"""The device and the software of a measurement, in words for people."""

import pathlib
import platform

import numpy as np
import tensorflow.compat.v1 as tf

_CPU_INFO = pathlib.Path("/proc/cpuinfo")  # of Linux


def describe(device):
    """Returns what measured times depend on, beside the settings.

    Args:
        device: Canonical name of a local device, such as `/device:CPU:0`.

    Returns:
        Dict of texts: `device_model`, the name that its maker gave it, and `tensorflow`, `numpy`,
        `python` and `os`, with versions.
    """
    spec = tf.DeviceSpec.from_string(device)
    model = _cpu_model()
    if spec.device_type != "CPU":
        physical = tf.config.experimental.list_physical_devices(spec.device_type)
        details = tf.config.experimental.get_device_details(physical[spec.device_index])
        model = details.get("device_name", spec.device_type)
    return {
        "device_model": model,
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()}",
    }


def _cpu_model():
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
