"""How long the devices of a step computed, from TensorFlow's statistics of one traced step."""

from __future__ import annotations

import re
import statistics
from typing import Iterable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate import partition
from replicate.reduction import collectives, packing

# Name scopes of operations that combine values of towers, or hand them to towers.
_MEETINGS = (collectives.SCOPE, partition.SCOPE, packing.WEIGHTS_SCOPE)
_SLOW = 1.5  # Times the median of the other towers.
_NOTICEABLE = 1e-3  # Seconds that a slow tower must cost a step to be reported.
# A GPU has statistics of the kernels themselves, beside those of their launch.
_KERNELS = "/stream:all"
# Operations that TensorFlow adds to send and receive tensors: they wait, and do not compute.
_TRANSFER = re.compile(r"/_\d+(:\w+)?$")
_DEVICE = re.compile(r"device:(\w+):(\d+)")


class StepTimes(NamedTuple):
    """Times of one step, in seconds, during which at least one operation was running."""

    towers: tuple[float, ...]
    """Operations of each tower, on its device. Those that run once, such as updates, are left out:
    they would make the tower on the consolidation device look slow."""
    meetings: float
    """On all devices: operations that combine values of towers, or hand them to towers."""


def measured(metadata: tf.RunMetadata, devices: Sequence[str]) -> StepTimes:
    """Returns the times of a traced step.

    Args:
        metadata: Of a step whose `tf.RunOptions` asked for a trace.
        devices: Device strings of the towers, such as `/device:GPU:0`.
    """
    scopes = {f"tower_{index}/": _short(device) for index, device in enumerate(devices)}
    found: dict[str, list[tuple[int, int]]] = {scope: [] for scope in scopes}
    meetings: list[tuple[int, int]] = []
    kernels = {one.device for one in metadata.step_stats.dev_stats if _KERNELS in one.device}
    for device in metadata.step_stats.dev_stats:
        name, known = device.device, _DEVICE.search(device.device)
        # TensorFlow 1.15 has `/host:CPU`, too, which names no device of the session.
        is_one_stream = "/stream:" in name and name not in kernels
        if known is None or is_one_stream or name + _KERNELS in kernels:
            continue
        here = f"{known[1].upper()}:{known[2]}"
        for node in device.node_stats:
            span = (node.all_start_micros, node.all_start_micros + node.all_end_rel_micros)
            scope = node.node_name.partition("/")[0] + "/"
            if node.node_name.startswith(_MEETINGS):
                meetings.append(span)
            elif scopes.get(scope) == here and not _TRANSFER.search(node.node_name):
                found[scope].append(span)
    return StepTimes(tuple(map(_covered, found.values())), _covered(meetings))


def slow_tower(seconds: Sequence[float], rows: Sequence[int]) -> int | None:
    """Returns the tower that keeps the others waiting; None if they take about as long.

    Args:
        seconds: Time of each tower.
        rows: Rows of each tower, for a tower with more rows may take longer.

    Returns:
        The slowest tower if its time for a row is 1.5 times the median of the others', and a
        millisecond a step more.
    """
    each = [time / count if count else 0.0 for time, count in zip(seconds, rows)]
    if len(each) < 2:
        return None
    slowest = max(range(len(each)), key=each.__getitem__)
    median = statistics.median(each[:slowest] + each[slowest + 1 :])
    lost = (each[slowest] - median) * rows[slowest]
    return slowest if each[slowest] > _SLOW * median and lost > _NOTICEABLE else None


def _short(device: str) -> str:
    spec = tf.DeviceSpec.from_string(device)
    return f"{(spec.device_type or '').upper()}:{spec.device_index}"


def _covered(spans: Iterable[tuple[int, int]]) -> float:
    """Returns the length of the union of intervals in microseconds, in seconds."""
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total / 1e6
