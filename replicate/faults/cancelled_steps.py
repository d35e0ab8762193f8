"""Lets training resume after a step that was cancelled because a task of the cluster was lost."""

from __future__ import annotations

import re
from typing import Any

import tensorflow.compat.v1 as tf

# Another error of the same step, in the spellings of TensorFlow 2 and 1.
_LOST = re.compile(r"\b(ABORTED|UNAVAILABLE|Aborted|Unavailable): ")


class CancelledStepHook(tf.train.SessionRunHook):
    """Raises the error of the lost task in place of `CancelledError`.

    A `MonitoredSession` makes a new session after an `AbortedError` or `UnavailableError`. But if a
    parameter server is lost, each task that takes part in a step may fail in its own way, and
    TensorFlow raises only one of these errors. If one task only noticed that another gave up, that
    is a `CancelledError`, whose text has the others. It would end the worker, although the server
    is back.
    """

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Changes the errors that `session.run` raises."""
        del coord
        run = session.run

        def run_or_tell(*args: Any, **kwargs: Any) -> Any:
            try:
                return run(*args, **kwargs)
            except tf.errors.CancelledError as error:
                if not _LOST.search(error.message):
                    raise
                raise tf.errors.AbortedError(
                    error.node_def,
                    error.op,
                    f"A task that took part in the step was lost. {error.message}",
                ) from error

        session.run = run_or_tell
