"""`StallHook`: training that stands still ends, with an error that says who is to be looked at."""

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

_LOOKS = 10  # at the other tasks, within the limit
_MOST_SECS = 10  # from one look to the next


class StallError(RuntimeError):
    """Training stood still for longer than it may."""


class StallHook(tf.train.SessionRunHook):
    """Ends training that stands still, and names the tasks of the cluster that do not report.

        hooks = [replicate.hooks.StallHook(run_config, limit_secs=600)]
        train_spec = estimator.TrainSpec(input_fn, hooks=hooks)

    TensorFlow waits forever for a parameter server that is gone, and a synchronous worker for those
    that hang. With this hook in every worker and in the chief,

    - a worker that makes no step for `limit_secs` ends with a `StallError`, which names the tasks
      that gave no sign of life, and what the others were doing;
    - so does every worker, if a parameter server takes no connections for so long;
    - all others log an error that names a worker without a sign of life, and go on.

    Signs of life are small files in `heartbeats/` of the model's directory, which all tasks must be
    able to read and write, and connections to the ports of the parameter servers.

    Where TensorFlow waits for a server to make a session, or Python for something else, no
    exception can reach it. There, the error is logged, and the process ends with `EXIT_STATUS`.

    Args:
        config: The `RunConfig` of the Estimator, which knows the cluster, or that there is none.
        limit_secs: How long a step may take, in seconds, a number > 0. It must be longer than the
            first step, and than what happens between steps: checkpoints, in `train_and_evaluate`
            without a cluster not the evaluation.

    Raises:
        ValueError: If `limit_secs` is not positive, or `config` has no `model_dir`.
    """

    EXIT_STATUS = 138  # What Kubernetes' training operator takes for worth another try.

    def __init__(self, config: tf.estimator.RunConfig, limit_secs: float = 600.0) -> None:
        if not limit_secs > 0:
            raise ValueError(
                f"`limit_secs` must be a number of seconds above 0, but is {limit_secs!r}. Pass "
                "what the longest step may take."
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
        """Begins to watch, before the session is made."""
        self._watch = _Watch(self._config, self._limit)
        self._watch.start()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Takes note of the session, and of time anew."""
        self._watch.watch(session, coord)

    def before_run(self, run_context: tf.train.SessionRunContext) -> None:
        """Takes note that a step begins."""
        del run_context
        self._watch.is_in_step = True

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        """Takes note that it is done."""
        del run_context, run_values
        self._watch.made_step()

    def end(self, session: tf.Session) -> None:
        """Stops watching, and tells the others that nothing more will come."""
        del session
        self._watch.stop()


class _Watch(threading.Thread):
    """Watches the thread that starts it, for as long as that is in a session."""

    def __init__(self, config, limit):
        super().__init__(name="replicate-stall", daemon=True)
        self.is_in_step = False
        self._limit = limit
        self._heartbeats = Heartbeats(config)
        self._in_cluster = bool(config.cluster_spec)
        self._task = self._heartbeats.task if self._in_cluster else "this process"
        self._watched = threading.get_ident()
        self._session = self._coord = None
        self._steps = 0
        self._last = time.monotonic()
        self._silent = set()
        self._ends = threading.Event()

    def watch(self, session, coord):
        """Makes this the session that is closed if training stands still."""
        self._session, self._coord = session, coord
        self._last = time.monotonic()

    def made_step(self):
        """Counts a step."""
        self._steps += 1
        self.is_in_step = False
        self._last = time.monotonic()

    def stop(self):
        """Ends the thread, in good order."""
        self._ends.set()
        self.join()
        self._beat(has_ended=True)

    def run(self):
        """Looks from time to time, until training has ended or stands still."""
        interval = min(self._limit / _LOOKS, _MOST_SECS)
        while self._is_training() and not self._ends.is_set():
            self._beat()
            self._heartbeats.look()
            self._warn()
            problem = self._problem()
            if problem:
                self._stop_training(StallError(problem))
                return
            self._ends.wait(interval)

    def _is_training(self):
        """Whether there is a session, or one is being made: when one fails, nobody says so."""
        is_open = self._coord is not None and not self._coord.should_stop()
        return is_open or sessions.is_in_call(self._watched)

    def _beat(self, has_ended=False):
        try:
            self._heartbeats.beat(Report(self._steps, self.is_in_step, has_ended))
        except tf.errors.OpError as error:  # A full disk is no reason to end.
            tf.logging.warning("replicate: %s cannot report: %s", self._task, error)

    def _warn(self):
        """Logs which tasks ceased to report, and which are back."""
        silent = self._heartbeats.silent(self._limit)
        for task in sorted(set(silent) - self._silent):
            tf.logging.error(
                "replicate: %s has not reported for %.0f s%s.", task, silent[task], self._said(task)
            )
        for task in sorted(self._silent - set(silent)):
            tf.logging.warning("replicate: %s reports again.", task)
        self._silent = set(silent)

    def _problem(self):
        """Returns why training must end, None if it need not."""
        since = time.monotonic() - self._last
        servers = sorted(task for task in self._silent if task.startswith("ps/"))
        if not servers and since <= self._limit:
            return None
        problem = f"Training stands still: {self._task} has made no step for {since:.0f} s"
        if servers:
            problem = f"{', '.join(servers)} took no connections for {self._limit:g} s"
        problem += f", of `limit_secs` {self._limit:g}. "
        # Whom a step waits for may have been there when it began.
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
                "Look at their logs"
                if self._in_cluster
                else "Look at what it waits for, as its input"
            )
            + ", and start what ended again: training goes on from the last checkpoint. If steps "
            "take longer, raise `limit_secs`."
        )

    def _said(self, task):
        report = self._heartbeats.reports().get(task)
        if report is None:
            return "" if task.startswith("ps/") else " (never reported)"
        return _what(report)

    def _stop_training(self, error):
        """Ends training by `error`, or the process if nothing else will."""
        is_open = self._coord is not None and not self._coord.should_stop()
        if is_open and not sessions.is_creating(self._watched):
            with contextlib.suppress(StallError):  # Another one closes it just now.
                self._coord.request_stop((StallError, error, None))
            # The watched thread goes on then, and finds the error. A server that is gone keeps
            # whoever closes a session.
            threading.Thread(target=self._session.close, daemon=True).start()
            deadline = time.monotonic() + self._limit
            while sessions.is_in_call(self._watched) and time.monotonic() < deadline:
                if self._ends.wait(0.1):
                    return
            if not sessions.is_in_call(self._watched):
                return
        tf.logging.fatal("replicate: %s", error)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(StallHook.EXIT_STATUS)


def _what(report):
    if report.has_ended:
        return f" (ended after {report.steps} steps)"
    return f" ({report.steps} steps made, {'in' if report.is_in_step else 'between'} steps)"
