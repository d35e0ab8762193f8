"""Signs of life of the tasks of a cluster: a small file of each trainer, a port of each server.

A file changes as long as its task runs. Whether it does is told by the reader's own clock, so that
clocks of several hosts need not agree. Parameter servers run no code of ours; one is there if it
takes connections.
"""

import json
import os
import socket
import time
from typing import Any, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from replicate.clusters.cluster import TRAINERS, this_task

_DIRECTORY = "heartbeats"
_CONNECT_SECS = 2


class Report(NamedTuple):
    """What a task last said of itself."""

    steps: int  # that it made
    is_in_step: bool
    has_ended: bool


class _Seen(NamedTuple):
    at: float  # seconds of the own clock, when that was new
    content: Any = None
    report: Optional[Report] = None


class Heartbeats:
    """The signs of life of the other tasks, and one's own.

    Args:
        config: The `RunConfig` of this task.
        clock: Function that returns seconds.

    Attributes:
        task: The name of this task, such as `'worker/0'`.
    """

    def __init__(self, config, clock=time.monotonic):
        self._clock = clock
        self._directory = os.path.join(config.model_dir, _DIRECTORY)
        self.task = task_of(config)
        self._own = self._path(self.task)
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
        self._seen = {task: _Seen(now) for task in (*self._trainers, *self._servers)}

    def beat(self, report):
        """Says of this task that it is there, and what it does, a `Report`."""
        self._beats += 1
        tf.gfile.MakeDirs(self._directory)
        # Renamed, so that nobody reads a part of it.
        with tf.gfile.GFile(f"{self._own}.new", "w") as file:
            file.write(json.dumps({"pid": os.getpid(), "beat": self._beats, **report._asdict()}))
        tf.gfile.Rename(f"{self._own}.new", self._own, overwrite=True)

    def look(self):
        """Looks for a sign of life of every other task."""
        for task in self._trainers:
            content, report = self._read(task)
            if content is not None and content != self._seen[task].content:
                self._seen[task] = _Seen(self._clock(), content, report)
        for task, address in self._servers.items():
            if _takes_connections(address):
                self._seen[task] = _Seen(self._clock())

    def silent(self, secs):
        """Returns the tasks without a sign of life for `secs` seconds: those seconds, by task."""
        now = self._clock()
        return {
            task: now - seen.at
            for task, seen in self._seen.items()
            if now - seen.at > secs and not (seen.report and seen.report.has_ended)
        }

    def reports(self):
        """Returns the last `Report` of each other trainer that sent one, by task."""
        return {task: seen.report for task, seen in self._seen.items() if seen.report}

    def _read(self, task):
        try:
            with tf.gfile.GFile(self._path(task)) as file:
                content = file.read(4096)
            fields = json.loads(content)
            return content, Report(*(fields[name] for name in Report._fields))
        except (tf.errors.OpError, UnicodeDecodeError, ValueError, TypeError, KeyError):
            return None, None  # There is none, or no whole one.

    def _path(self, task):
        return os.path.join(self._directory, task.replace("/", "-"))


def task_of(config):
    """Returns the name of this process's task, such as `'worker/0'`.

    If a strategy trains, the `RunConfig` does not know it: the coordinator tells a copy.
    """
    _, job, index = this_task()
    return f"{config.task_type}/{config.task_id}" if job is None else f"{job}/{index}"


def _takes_connections(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECS).close()
    except (OSError, ValueError):
        return False
    return True
