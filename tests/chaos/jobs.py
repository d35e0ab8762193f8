"""Runs the jobs of a chaos run: an uninterrupted one, and others to which faults happen."""

from __future__ import annotations

import json
import signal
import threading
from typing import Any, NamedTuple

from chaos import report
from chaos.disk import Disk
from chaos.faults import Happening, Stage
from chaos.keeper import ChaosCluster, Keeper
from chaos.record import CHIEF, Record

START_S = 150  # Limit until all tasks of a job have made a step.
_LOOK_S = 0.1
_MANY = 10**6  # Steps, of a job that is told to end.
_JOIN_S = 150  # Limit until faults are over when their job is.


class Setting(NamedTuple):
    """Settings that all jobs of a run share."""

    directory: Any
    """A `pathlib.Path`, for logs."""
    disk: Any
    """A `pathlib.Path`, for checkpoints."""
    is_mounted: bool
    """Whether `disk` is a file system of its own."""
    workers: int
    ps: int
    stall_secs: float
    say: Any
    """Function of a dict, which prints it."""


class JobFailedError(Exception):
    """A job without faults failed."""


class Job:
    """A cluster that trains in a directory of its own.

    Args:
        setting: The `Setting`.
        name: Its name, and that of its directories.
        *flags: More of the command line of its tasks.

    Attributes:
        is_sync: Whether its tasks wait for one another.
        stall_secs: How long its `StallHook`s wait for a step, in seconds.
    """

    def __init__(self, setting, name, *flags):
        self.name = name
        self.is_sync = "--sync" in flags
        self.stall_secs = setting.stall_secs
        self.record = Record()
        self.directory = setting.disk / name
        self.directory.mkdir()
        shared = ["--model_dir", str(self.directory), "--dtype", "float64"]
        shared += ["--stall_secs", str(setting.stall_secs), *map(str, flags)]
        self._logs = logs = setting.directory / "logs" / name
        self.disk = Disk(setting.disk, setting.is_mounted, self._processes)
        self.cluster = ChaosCluster(
            self.record, self._started, setting.workers + 1, shared, logs, ps=setting.ps
        )
        self.keeper = Keeper(self.cluster, self.record, self.directory)
        self._pause = threading.Event()

    def until(self, is_true, secs):
        """Waits until a function returns true; returns whether it did within so many seconds."""
        deadline = self.record.now() + secs
        while not is_true():
            if self.record.now() > deadline:
                return False
            self._pause.wait(_LOOK_S)
        return True

    def is_quiet(self):
        """Whether all tasks run, and those that make steps do."""
        return all(
            self.keeper.has_completed(name)
            or (
                self.keeper.is_running(name)
                and (name.startswith("ps/") or self.record.has_worked(name))
            )
            for name in self.cluster.names()
        )

    def write(self):
        """Writes all events beside the logs of the tasks, a line of JSON for each."""
        lines = [json.dumps(event) for event in self.record.events]
        (self._logs / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _started(self, process):
        self.disk.started(process.pid)

    def _processes(self):
        tasks = list(self.cluster.tasks.values())
        return [task.process.pid for task in tasks if task.process.poll() is None]


class Uninterrupted(NamedTuple):
    """Results of a synchronous job without faults."""

    steps: int
    events: list
    steps_per_s: float
    start_s: float
    """Seconds until all tasks had made a step."""
    directory: Any


def uninterrupted(setting, secs, *flags):
    """Trains a synchronous job for so many seconds; returns an `Uninterrupted`."""
    job = Job(setting, "uninterrupted", "--sync", "--steps", _MANY, *flags)
    record, trainers = job.record, job.cluster.trainers()
    with job.cluster:
        job.keeper.start()
        if not job.until(job.is_quiet, START_S):
            raise JobFailedError(f"not all tasks have made a step within {START_S} s")
        begun, first = record.now(), record.step()
        job.until(lambda: False, secs)
        rate = (record.step() - first) / (record.now() - begun)
        if not all(job.keeper.is_running(name) for name in job.cluster.names()):
            raise JobFailedError("a task ended")
        job.cluster.tasks[CHIEF].send(signal.SIGTERM)
        job.cluster.tasks[CHIEF].wait(60)
        told = [event.step for event in record.events if event.kind == "told"]
        if not told:
            raise JobFailedError("the chief was told to leave, but did not save")
        last = {(name, told[0] - 1) for name in trainers}
        if not job.until(lambda: last <= {*report.losses(record.events)}, 30):
            raise JobFailedError(f"not all tasks have made step {told[0] - 1}")
    job.write()
    return Uninterrupted(told[0], list(record.events), rate, begun, job.directory)


class Disturbed(NamedTuple):
    """Results of a job to which faults happened."""

    job: Job
    happened: list
    """Each `Happening`, those that were skipped included."""
    left: int
    """Number of groups of faults for which no time was left."""
    has_ended: bool
    """Whether the job ended by itself."""


def disturbed(setting, job, groups, steps, rate, secs, more_secs):
    """Trains a job while faults happen to it.

    Args:
        setting: The `Setting`.
        job: The `Job`.
        groups: Its part of the plan.
        steps: Number of steps at which it ends.
        rate: Steps in a second without faults.
        secs: Seconds in which it should end; faults begin as long as it can.
        more_secs: Seconds after these when it is given up.

    Returns:
        A `Disturbed`.
    """
    over = threading.Event()
    hang_secs = setting.stall_secs * 1.5
    stage = Stage(job.keeper, job.directory, job.disk, hang_secs, over)
    left, happened = list(groups), []
    reports = report.Reports(job, happened, setting.say)

    def is_due():
        step, now = job.record.step(), job.record.now()
        return (
            step >= left[0][0].at * steps
            and now < secs - (steps - step) / rate
            and all(one.ended is not None for one in happened)
            and job.is_quiet()
        )

    with job.cluster:
        try:
            job.keeper.start()
            while not job.keeper.is_done() and job.record.now() < secs + more_secs:
                job.keeper.look()
                if left and is_due():
                    for fault in left.pop(0):
                        happened.append(Happening(fault, stage, job.record))
                        happened[-1].start()
                reports.say_settled()
                over.wait(_LOOK_S)
            has_ended = job.keeper.is_done()
        finally:
            over.set()
            for one in happened:
                one.join(_JOIN_S)
            job.disk.free()
        job.keeper.look()
    job.write()
    reports.say_all()
    return Disturbed(job, happened, len(left), has_ended)
