"""Keeps the tasks of a local cluster running, as an orchestrator does."""

from __future__ import annotations

import pathlib
import re
import threading
import time

import programs
from chaos.record import CHIEF
from examples.cluster.local import LocalCluster

_SOON_S, _LATEST_S = 1.0, 8.0  # Until a task that failed starts again, once and the nth time.
_QUICK_S = 30  # A task that ends earlier has failed to start.


class ChaosCluster(LocalCluster):
    """A local cluster that records starts.

    Args:
        record: The `Record`.
        started: Function of the process, a `Popen`, that is called for each.
        *args, **kwargs: As for `LocalCluster`.
    """

    def __init__(self, record, started, *args, **kwargs):
        env = {"PYTHONPATH": str(programs.ROOT), "CUDA_VISIBLE_DEVICES": ""}
        super().__init__(*args, env=env, echo=record.heard, **kwargs)
        self._record = record
        self._started = started

    def start(self, name, flags=()):
        """Starts a task; see `LocalCluster`."""
        self._record.add(name, "start")
        task = super().start(name, flags)
        self._started(task.process)
        return task

    def names(self):
        """Returns the names of all tasks, a list."""
        return [f"{job}/{i}" for job, at in self.cluster.items() for i in range(len(at))]

    def trainers(self):
        """Returns the names of the tasks that make steps, a list."""
        return [name for name in self.names() if not name.startswith("ps/")]


class Keeper:
    """Starts tasks again that ended with an error.

    Attributes:
        last_words: For each end with an error: task, status and the last lines, a list of dicts.

    Args:
        cluster: The `ChaosCluster`, in its scope.
        record: The `Record`.
        model_dir: Its directory of checkpoints, a str.
    """

    def __init__(self, cluster, record, model_dir):
        self.cluster = cluster
        self.last_words = []
        self._lock = threading.Lock()
        self._held = set()
        self._record = record
        self._state = pathlib.Path(model_dir) / "checkpoint"
        self._saved = -1
        self._noticed = {}  # The process of each task whose end is recorded.
        self._due = {}  # When tasks that ended are started again.
        self._failures = {}  # How often each has failed to start.
        self._begun = {}

    def start(self):
        """Starts all tasks."""
        self.cluster.start_all(evaluator=False)
        self._begun = dict.fromkeys(self.cluster.tasks, time.monotonic())

    def look(self):
        """Looks at all tasks once: records those that ended, and starts those that are due."""
        self._look_at_checkpoints()
        for name, task in list(self.cluster.tasks.items()):
            status = task.process.poll()
            if status is None:
                continue
            if self._noticed.get(name) is not task:
                task.wait(10)  # Until all it printed is recorded.
                self._noticed[name] = task
                self._record.add(name, "end", status=status)
                if status:
                    said = {"task": name, "at_s": round(self._record.now(), 1), "status": status}
                    self.last_words.append({**said, "said": self._said(task)})
                self._due[name] = time.monotonic() + self._delay(name)
            with self._lock:
                is_due = time.monotonic() >= self._due[name] and name not in self._held
                if is_due and not self._is_complete(name, status):
                    self._begun[name] = time.monotonic()
                    self.cluster.start(name)

    def hold(self, name):
        """Does not start a task again until it is released."""
        with self._lock:
            self._held.add(name)

    def release(self, name):
        """Lets a task start again."""
        with self._lock:
            self._held.discard(name)

    def is_done(self):
        """Whether all tasks that make steps have ended without an error."""
        return all(self.has_completed(name) for name in self.cluster.trainers())

    def has_completed(self, name):
        """Whether a task has ended without an error."""
        task = self.cluster.tasks.get(name)
        return bool(task) and self._is_complete(name, task.process.poll())

    def is_running(self, name):
        """Whether a task has a process."""
        task = self.cluster.tasks.get(name)
        return bool(task) and task.process.poll() is None

    @staticmethod
    def _said(task, lines=3):
        """Returns the last lines that a task printed which are neither steps nor stacks, a list."""
        said = task.lines[-400:]
        errors = [line for line in said if re.match(r"[\w.]*(Error|Exception|Exit)\b|FATAL", line)]
        errors = errors or [line for line in said if line.strip() and line[:5] != "step "]
        return [line[:500] for line in errors[-lines:]]

    def _delay(self, name):
        is_quick = time.monotonic() - self._begun.get(name, 0) < _QUICK_S
        self._failures[name] = self._failures.get(name, 0) + 1 if is_quick else 0
        return min(_SOON_S * 2 ** self._failures[name], _LATEST_S)

    def _look_at_checkpoints(self):
        """Records that the newest checkpoint is another one."""
        try:
            text = self._state.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        match = re.match(r'model_checkpoint_path: "[^"\n]*model\.ckpt-(\d+)"', text)
        if match and int(match[1]) != self._saved:
            self._saved = int(match[1])
            self._record.add(CHIEF, "saved", self._saved)

    @staticmethod
    def _is_complete(name, status):
        return status == 0 and not name.startswith("ps/")
