"""Makes the faults of a plan happen to the processes of a cluster."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time

from chaos import plan
from chaos.record import CHIEF

GRACE_S = 30  # From SIGTERM to SIGKILL, as Kubernetes has it.
_GONE_S = 60  # Limit until a process that was killed is gone.
_SAVE_S = 30  # Limit until a save begins.
_LOOK_S = 0.05
_STOPPED_S, _RUNNING_S = 0.2, 0.1  # Of a task that is slow.


class SkippedError(Exception):
    """A fault could not be made, e.g. because its task has completed."""


class Stage:
    """The cluster that faults happen to.

    Args:
        keeper: The `Keeper` of its tasks.
        directory: Its directory of checkpoints, a `pathlib.Path`.
        disk: The `Disk` of that directory.
        hang_secs: How long a task hangs, a number.
        is_over: The `threading.Event` that ends all faults.
    """

    def __init__(self, keeper, directory, disk, hang_secs, is_over):
        self.keeper = keeper
        self.directory = directory
        self.disk = disk
        self.hang_secs = hang_secs
        self.is_over = is_over

    def wait(self, secs):
        """Waits, unless the job is over."""
        self.is_over.wait(secs)

    def process(self, name):
        """Returns the process of a task, a `Popen`."""
        if self.keeper.has_completed(name):
            raise SkippedError(f"{name} has completed")
        return self.keeper.cluster.tasks[name].process

    @contextlib.contextmanager
    def ended(self, name, happened, number=signal.SIGKILL, limit=_GONE_S):
        """Ends a task by a signal; it is not started again in this scope."""
        self.keeper.hold(name)
        try:
            process = self.process(name)
            happened()
            _send(process, number)
            if not _is_gone(process, limit):
                _send(process, signal.SIGKILL)
                if not _is_gone(process, _GONE_S):
                    raise SkippedError(f"{name} cannot be killed")
            yield
        finally:
            self.keeper.release(name)

    def checkpoints(self):
        """Returns the steps of finished checkpoints, the newest last."""
        found = (re.fullmatch(r"model\.ckpt-(\d+)\.index", name) for name in self.files())
        return sorted(int(match[1]) for match in found if match)

    def files(self):
        """Returns the names of the files in the directory of checkpoints."""
        with contextlib.suppress(FileNotFoundError):
            return os.listdir(self.directory)
        return []


def _send(process, number):
    if process.poll() is None:
        process.send_signal(number)


def _is_gone(process, limit):
    """Waits until a process has ended; returns whether it has."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(limit)
    return process.poll() is not None


def _kill(stage, fault, happened):
    with stage.ended(fault.task, happened):
        stage.wait(fault.wait)


def _preempt(stage, fault, happened):
    with stage.ended(fault.task, happened, signal.SIGTERM, GRACE_S):
        stage.wait(fault.wait)


def _stop(stage, fault, happened, seconds=None):
    process = stage.process(fault.task)
    happened()
    try:
        _send(process, signal.SIGSTOP)
        stage.wait(fault.seconds if seconds is None else seconds)
    finally:
        _send(process, signal.SIGCONT)


def _hang(stage, fault, happened):
    _stop(stage, fault, happened, stage.hang_secs)


def _slow(stage, fault, happened):
    process = stage.process(fault.task)
    deadline = time.monotonic() + fault.seconds
    happened()
    try:
        while time.monotonic() < deadline and not stage.is_over.is_set():
            _send(process, signal.SIGSTOP)
            stage.wait(_STOPPED_S)
            _send(process, signal.SIGCONT)
            stage.wait(_RUNNING_S)
    finally:
        _send(process, signal.SIGCONT)


def _disk(stage, fault, happened):
    happened(way=stage.disk.way)
    try:
        stage.disk.fill()
        stage.wait(fault.seconds)
    finally:
        stage.disk.free()


def _port(stage, fault, happened):
    """Another program listens at the port when the task starts again."""
    job, _, index = fault.task.partition("/")
    host, _, port = stage.keeper.cluster.cluster[job][int(index)].rpartition(":")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with stage.ended(fault.task, happened):
            _bind(taken, (host, int(port)), stage)
        stage.wait(fault.seconds)


def _bind(taken, address, stage):
    deadline = time.monotonic() + _GONE_S
    while True:
        try:
            taken.bind(address)
            taken.listen(16)
            return
        except OSError:
            if time.monotonic() > deadline:
                raise SkippedError(f"port {address[1]} stays taken") from None
            stage.wait(_LOOK_S)


def _checkpoint(stage, fault, happened):
    """The newest checkpoint is damaged while the chief is down."""
    if len(stage.checkpoints()) < 2:
        raise SkippedError("there is only one checkpoint")
    with stage.ended(CHIEF, happened):
        newest = stage.checkpoints()[-1]
        if not fault.way.endswith("state"):
            happened(damaged=newest)
        _damage(stage.directory, newest, fault.way)
        stage.wait(fault.wait)


def _damage(directory, step, way):
    """Damages a checkpoint, or the file that names it; `ways` of the plan lists how."""
    action, part = way.split()
    if part == "state":
        file = directory / "checkpoint"
        if action == "no":
            file.unlink()
        else:
            file.write_bytes(b"\xff\x00garbage")
        return
    files = sorted(directory.glob(f"model.ckpt-{step}.{part}*"), key=lambda f: f.stat().st_size)
    file = files[-1]
    content = bytearray(file.read_bytes())
    if action == "no":
        file.unlink()
    elif action == "cut":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(content)


def _save(stage, fault, happened):
    """A task is killed while a checkpoint is written."""
    known = {*stage.files()}
    deadline = time.monotonic() + _SAVE_S
    process = stage.process(fault.task)
    while not _is_saving({*stage.files()} - known):
        if time.monotonic() > deadline or stage.is_over.is_set() or process.poll() is not None:
            raise SkippedError("no save began")
        stage.wait(0.001)
    with stage.ended(fault.task, happened):
        stage.wait(fault.wait)


def _is_saving(new):
    return any("_temp" in name or ".tempstate" in name for name in new)


def _all(stage, fault, happened):
    """All tasks are lost."""
    with contextlib.ExitStack() as stack:
        for name in stage.keeper.cluster.names():
            with contextlib.suppress(SkippedError):
                stack.enter_context(stage.ended(name, happened))
        stage.wait(fault.wait)


_FAULTS = {
    "kill": _kill,
    "preempt": _preempt,
    "stop": _stop,
    "slow": _slow,
    "disk": _disk,
    "port": _port,
    "checkpoint": _checkpoint,
    "save": _save,
    "hang": _hang,
    "all": _all,
}
assert {*_FAULTS} == {*plan.KNOWN}


class Happening(threading.Thread):
    """A fault that happens, in a thread of its own.

    Attributes:
        fault: The `Fault` of the plan.
        begun: Time of the record when it happened; None as long as it has not.
        ended: Time of the record when it was over, None before that.
        facts: More that is known of it, a dict: `damaged`, the step of a checkpoint; `skipped`, why
            it did not happen; `way`.
    """

    def __init__(self, fault, stage, record):
        super().__init__(name=f"chaos-{fault.kind}", daemon=True)
        self.fault = fault
        self.begun = None
        self.ended = None
        self.facts = {}
        self._stage = stage
        self._record = record

    def run(self):
        """Makes it happen."""
        try:
            self._stage.wait(self.fault.after)
            if self._stage.is_over.is_set():
                raise SkippedError("the job is over")
            _FAULTS[self.fault.kind](self._stage, self.fault, self._happened)
        except SkippedError as reason:
            self.facts["skipped"] = str(reason)
        except Exception as error:  # Else nobody would see it.
            self.facts["skipped"] = f"{type(error).__name__}: {error}"
            self.facts["failed"] = True
        self.ended = self._record.now()

    def _happened(self, **facts):
        if self.begun is None:
            self.begun = self._record.now()
        self.facts.update(facts)
