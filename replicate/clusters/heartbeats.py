"""Detects dead tasks of a cluster, by a file of each trainer and a port of each server.

A trainer's file changes as long as the task runs. The reader times the changes by its local clock,
so that clocks of several hosts need not agree. Parameter servers run none of this library's code:
one is alive if it accepts connections.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any, Callable, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.clusters.cluster import TRAINERS, this_task

_DIRECTORY = "heartbeats"
_CONNECT_SECS = 2  # Timeout of a connection to a server.


class Report(NamedTuple):
    """State of a task, as its file last told."""

    steps: int
    """How many steps it has made."""
    is_in_step: bool
    """Whether a step was running."""
    has_ended: bool
    """Whether its training has ended."""


class _Seen(NamedTuple):
    at: float  # Time of the last sign of life, in seconds of the local clock.
    content: Any = None  # Content of the task's file.
    report: Report | None = None


class Heartbeats:
    """Sends this task's heartbeats, and watches for those of the other tasks.

    Args:
        config: The `RunConfig` of this task.
        clock: Function that returns the time in seconds, a float.

    Attributes:
        task: The name of this task, such as `'worker/0'`.
    """

    def __init__(self, config: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._directory = os.path.join(config.model_dir, _DIRECTORY)
        self.task = task_of(config)
        self._file = self._path(self.task)
        self._beats = 0
        cluster = config.cluster_spec.as_dict() if config.cluster_spec else {}
        tasks = {
            f"{job}/{index}": address
            for job, addresses in cluster.items()
            for index, address in enumerate(addresses)
        }
        self._servers = {task: at for task, at in tasks.items() if task.startswith("ps/")}
        self._trainers = [
            task for task in tasks if task.partition("/")[0] in TRAINERS and task != self.task
        ]
        now = clock()
        # A file of an earlier run is no sign of life, until it changes.
        self._seen = {task: _Seen(now, self._read(task)[0]) for task in self._trainers}
        self._seen.update((task, _Seen(now)) for task in self._servers)

    def beat(self, report: Report) -> None:
        """Writes a `Report` of this task, as a sign that it is alive."""
        self._beats += 1
        tf.gfile.MakeDirs(self._directory)
        # Renaming is atomic, so that no reader sees a part of the file.
        with tf.gfile.GFile(f"{self._file}.new", "w") as file:
            file.write(json.dumps({"pid": os.getpid(), "beat": self._beats, **report._asdict()}))
        tf.gfile.Rename(f"{self._file}.new", self._file, overwrite=True)

    def look(self) -> None:
        """Looks for a sign of life of every other task."""
        for task in self._trainers:
            content, report = self._read(task)
            if content is not None and content != self._seen[task].content:
                self._seen[task] = _Seen(self._clock(), content, report)
        for task, address in self._servers.items():
            if _takes_connections(address):
                self._seen[task] = _Seen(self._clock())

    def silent(self, secs: float) -> dict[str, float]:
        """Returns tasks without a sign of life for `secs` seconds: seconds of silence by task."""
        now = self._clock()
        return {
            task: now - seen.at
            for task, seen in self._seen.items()
            # A task that has ended is silent for good.
            if now - seen.at > secs and not (seen.report and seen.report.has_ended)
        }

    def reports(self) -> dict[str, Report]:
        """Returns the last `Report` of each other trainer that sent one, by task."""
        return {task: seen.report for task, seen in self._seen.items() if seen.report}

    def _read(self, task: str) -> tuple[str | None, Report | None]:
        try:
            with tf.gfile.GFile(self._path(task)) as file:
                content = file.read(4096)
            fields = json.loads(content)
            return content, Report(*(fields[name] for name in Report._fields))
        except (tf.errors.OpError, UnicodeDecodeError, ValueError, TypeError, KeyError):
            return None, None  # The file is missing or incomplete.

    def _path(self, task: str) -> str:
        return os.path.join(self._directory, task.replace("/", "-"))


def task_of(config: Any) -> str:
    """Returns the name of this process's task, such as `'worker/0'`.

    If a strategy trains, only a copy of the `RunConfig` knows the task; TF_CONFIG always does.
    """
    _, job, index = this_task()
    return f"{config.task_type}/{config.task_id}" if job is None else f"{job}/{index}"


def _takes_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECS).close()
    except (OSError, ValueError):
        return False
    return True
