"""`StallHook`: ends training that stands still, with an error that names the silent tasks."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import Any

import tensorflow.compat.v1 as tf

from replicate.clusters import Heartbeats, Report
from replicate.compat import sessions

__all__ = ("StallError", "StallHook")

_LOOKS = 10  # Number of looks at the other tasks within the limit.
_MOST_SECS = 10  # Longest interval between two looks, in seconds.


class StallError(RuntimeError):
    """Training stood still for longer than `limit_secs`."""


class StallHook(tf.train.SessionRunHook):
    """Ends training that stands still, and names the tasks of the cluster that do not report.

        hooks = [replicate.hooks.StallHook(run_config, limit_secs=600)]
        train_spec = estimator.TrainSpec(input_fn, hooks=hooks)

    TensorFlow waits forever for a parameter server that is gone, and a synchronous worker waits
    forever for workers that hang. With this hook in every worker and in the chief,

    - a worker that makes no step for `limit_secs` ends with a `StallError`, which names the tasks
      that gave no sign of life and the state of the others;
    - every worker ends so if a parameter server accepts no connections for `limit_secs`;
    - if a worker gives no sign of life, the others log an error that names it, and go on.

    Signs of life are small files in `heartbeats/` of the model's directory, which all tasks must be
    able to read and write, and connections to the ports of the parameter servers.

    No exception can interrupt TensorFlow while it waits for a server to make a session, nor Python
    while it waits outside a session. In these cases, the error is logged, and the process ends with
    `EXIT_STATUS`.

    Args:
        config: The Estimator's `RunConfig`, which describes the cluster, if there is one.
        limit_secs: Limit for a step in seconds, a number > 0. It must be longer than the first
            step, and longer than work between steps, such as saving checkpoints. An evaluation
            inside training does not count: that of `train_and_evaluate` without a cluster, with
            its exports, and any other that a hook makes with an Estimator.

    Raises:
        ValueError: If `limit_secs` is not positive, or `config` has no `model_dir`.
    """

    EXIT_STATUS = 138  # Kubernetes' training operator restarts a task that exits with it.

    def __init__(self, config: tf.estimator.RunConfig, limit_secs: float = 600.0) -> None:
        if not limit_secs > 0:
            raise ValueError(
                f"`limit_secs` must be a number of seconds above 0, but is {limit_secs!r}. Pass "
                "the time that the longest step may take."
            )
        if not getattr(config, "model_dir", None):
            raise ValueError(
                "Tasks report in the directory of the model, but `config` must be a `RunConfig` "
                f"with a `model_dir`, and is {config!r}. Pass `estimator.config`."
            )
        self._config = config
        self._limit = limit_secs
        self._watch: Any = None  # The `_Watch` of the session.

    def begin(self) -> None:
        """Starts to watch, before the session is made."""
        self._watch = _Watch(self._config, self._limit)
        self._watch.start()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Watches the session, with the time starting now."""
        self._watch.watch(session, coord)

    def before_run(self, run_context: tf.train.SessionRunContext) -> None:
        """Records that a step begins."""
        del run_context
        self._watch.is_in_step = True

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        """Records that the step is done."""
        del run_context, run_values
        self._watch.made_step()

    def end(self, session: tf.Session) -> None:
        """Stops watching, and tells the other tasks that this one has ended."""
        del session
        self._watch.stop()


class _Watch(threading.Thread):
    """Watches the thread that starts it, as long as that thread is in its present session."""

    def __init__(self, config: Any, limit: float) -> None:
        super().__init__(name="replicate-stall", daemon=True)
        self.is_in_step = False
        self._limit = limit
        self._heartbeats = Heartbeats(config)
        self._in_cluster = bool(config.cluster_spec)
        self._task = self._heartbeats.task if self._in_cluster else "this process"
        self._watched = threading.get_ident()
        # The thread may enter another session when this one has failed, for a second attempt.
        self._outer = sessions.innermost(self._watched)
        # The watched session may itself belong to an evaluation.
        self._evaluations = sessions.evaluations(self._watched)
        self._session: Any = None
        self._coord: Any = None
        self._steps = 0
        self._last = time.monotonic()
        self._silent: set[str] = set()
        self._ends = threading.Event()

    def watch(self, session: Any, coord: Any) -> None:
        """Sets the session that is closed if training stands still."""
        self._session, self._coord = session, coord
        self._last = time.monotonic()

    def made_step(self) -> None:
        """Counts a step."""
        self._steps += 1
        self.is_in_step = False
        self._last = time.monotonic()

    def stop(self) -> None:
        """Ends the thread, and reports that training has ended."""
        self._ends.set()
        self.join()
        self._beat(has_ended=True)

    def run(self) -> None:
        """Looks at regular intervals, until training has ended or stands still."""
        interval = min(self._limit / _LOOKS, _MOST_SECS)
        while self._is_training() and not self._ends.is_set():
            self._beat()
            self._heartbeats.look()
            self._warn()
            now = time.monotonic()
            if sessions.evaluations(self._watched) > self._evaluations:
                self._last = now  # A hook evaluates meanwhile.
            problem = self._problem(now)
            if problem:
                self._stop_training(StallError(problem))
                return
            self._ends.wait(interval)

    def _is_training(self) -> bool:
        """Whether there is a session, or one is being made.

        No hook is called when a session fails, so the watched thread's stack is looked at.
        """
        is_open = self._coord is not None and not self._coord.should_stop()
        return is_open or self._is_in_call()

    def _is_in_call(self) -> bool:
        return sessions.is_in_call(self._watched, self._outer)

    def _beat(self, has_ended: bool = False) -> None:
        try:
            self._heartbeats.beat(Report(self._steps, self.is_in_step, has_ended))
        except tf.errors.OpError as error:  # Training can go on with a full disk.
            tf.logging.warning("replicate: %s cannot report: %s", self._task, error)

    def _warn(self) -> None:
        """Logs which tasks stopped reporting, and which report again."""
        silent = self._heartbeats.silent(self._limit)
        for task in sorted(set(silent) - self._silent):
            tf.logging.error(
                "replicate: %s has not reported for %.0f s%s.", task, silent[task], self._said(task)
            )
        for task in sorted(self._silent - set(silent)):
            tf.logging.warning("replicate: %s reports again.", task)
        self._silent = set(silent)

    def _problem(self, now: float) -> str | None:
        """Returns the reason to end training, None if there is none."""
        since = now - self._last
        servers = sorted(task for task in self._silent if task.startswith("ps/"))
        if not servers and since <= self._limit:
            return None
        problem = f"Training stands still: {self._task} has made no step for {since:.0f} s"
        if servers:
            problem = f"{', '.join(servers)} took no connections for {self._limit:g} s"
        problem += f", of `limit_secs` {self._limit:g}. "
        # A task that the step waits for may have died after the step began: use half the limit.
        silent = self._heartbeats.silent(self._limit / 2)
        if silent:
            tasks = (f"{task}{self._said(task)}" for task in sorted(silent))
            problem += f"Not reporting: {', '.join(tasks)}. "
        others = {
            task: report
            for task, report in self._heartbeats.reports().items()
            if task not in silent
        }
        if others:
            said = (f"{task}{_what(report)}" for task, report in sorted(others.items()))
            problem += f"Reporting: {', '.join(said)}. "
        return (
            problem
            + (
                "Look at their logs, and restart tasks that ended"
                if self._in_cluster
                else "Check what it waits for, such as its input, and start it again"
            )
            + ": training goes on from the last checkpoint. If steps take longer, raise "
            "`limit_secs`."
        )

    def _said(self, task: str) -> str:
        report = self._heartbeats.reports().get(task)
        if report is None:
            return "" if task.startswith("ps/") else " (never reported)"
        return _what(report)

    def _stop_training(self, error: StallError) -> None:
        """Ends training with `error`, or ends the process if that fails."""
        is_open = self._coord is not None and not self._coord.should_stop()
        if is_open and not sessions.is_creating(self._watched):
            with contextlib.suppress(StallError):  # Raised if the session ends right now.
                self._coord.request_stop((StallError, error, None))
            # Closing the session lets the watched thread go on and find the error. In a thread,
            # because closing blocks if a server is gone.
            threading.Thread(target=self._session.close, daemon=True).start()
            deadline = time.monotonic() + self._limit
            while self._is_in_call() and time.monotonic() < deadline:
                if self._ends.wait(0.1):
                    return
            if not self._is_in_call():
                return
        tf.logging.fatal("replicate: %s", error)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(StallHook.EXIT_STATUS)


def _what(report: Report) -> str:
    if report.has_ended:
        return f" (ended after {report.steps} steps)"
    return f" ({report.steps} steps made, {'in' if report.is_in_step else 'between'} steps)"
