"""Sums over GPUs by NCCL, with a check before training starts.

NCCL sums along the fastest links between GPUs. TensorFlow's use of it was reported to give wrong
sums on some hosts, without an error. Therefore `replicate` uses it only if the user asks for it.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

_NUMBERS = 1000  # Length of the check's float32 vectors, all sums of which are exact.


def check_devices(devices: Sequence[str], consolidation_device: str) -> None:
    """Raises unless NCCL can sum the gradients of these towers.

    Args:
        devices: Device strings of the towers.
        consolidation_device: String of the device that needs the sums.

    Raises:
        ValueError: If a tower is not on a GPU, or `consolidation_device` has no tower.
    """
    others = [name for name in devices if "GPU:" not in name.upper()]
    if others or consolidation_device not in devices:
        raise ValueError(
            "`reduction='nccl'` sums gradients over GPUs, and the consolidation device must be "
            f"one of them, but towers are on {', '.join(devices)} and it is "
            f"{consolidation_device}. Leave `reduction` out."
        )


def add(tensors: Sequence[Any], devices: Sequence[str], place: str) -> Any:
    """Returns the sum of N dense tensors, one on each of N devices, on the device `place`.

    Args:
        tensors: List of tensors of one shape and type.
        devices: List of device strings.
        place: One of `devices`.
    """
    name = tf.get_default_graph().unique_name("replicate_nccl")
    sums = all_reduce(tensors, devices, name)
    # Each all-reduce waits for all others, so a step must run every one of them.
    with tf.device(place), tf.control_dependencies(sums):
        return tf.identity(sums[devices.index(place)])


def all_reduce(tensors: Sequence[Any], devices: Sequence[str], name: str) -> list[Any]:
    """Returns the sum of N tensors on each of N devices.

    Args:
        tensors: As `add` takes them.
        devices: As `add` takes them.
        name: Name that the all-reduces of one sum share, unique in the graph.

    Returns:
        List of N equal tensors, one on each device.
    """
    sums = []
    for tensor, device in zip(tensors, devices):
        with tf.device(device):
            sums.append(
                tf.raw_ops.NcclAllReduce(
                    input=tensor, reduction="sum", num_devices=len(devices), shared_name=name
                )
            )
    return sums


class CheckHook(tf.train.SessionRunHook):
    """Ends training before its first step if NCCL gives a wrong sum of known numbers.

    Args:
        devices: Device strings of the towers.
        place: String of the device that needs the sums.
    """

    def __init__(self, devices: Sequence[str], place: str) -> None:
        self._devices = list(devices)
        self._place = place

    def begin(self) -> None:
        """Builds the sum of known numbers."""
        self._expected = np.zeros(_NUMBERS, np.float32)
        numbers = []
        with tf.name_scope("replicate/nccl_check/"):
            for index, device in enumerate(self._devices):
                values = np.arange(_NUMBERS, dtype=np.float32) * (index + 1)
                self._expected += values
                with tf.device(device):
                    numbers.append(tf.constant(values))
            self._sum = add(numbers, self._devices, self._place)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the sum and compares it with the expected one.

        Raises:
            RuntimeError: If they differ.
        """
        found = session.run(self._sum)
        wrong = np.flatnonzero(found != self._expected)
        if len(wrong):
            first = wrong[0]
            raise RuntimeError(
                "NCCL must give exact sums of known numbers, but on "
                f"{', '.join(self._devices)} {len(wrong)} of {_NUMBERS} sums are wrong: "
                f"{found[first]!r} instead of {self._expected[first]!r}. Leave "
                "`reduction='nccl'` out."
            )
