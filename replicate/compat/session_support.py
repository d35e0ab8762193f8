"""Replaces `tensorflow.python.tpu.session_support`, which TPUEstimator needs and is gone.

The original watched the heartbeats of TPU workers, to save and stop before one was preempted. A job
trains without it, too: after a worker is lost, it goes on from its last checkpoint.
"""

from __future__ import annotations

from typing import Any, NoReturn

import tensorflow.compat.v1 as tf


class GracefulShutdownHook(tf.train.SessionRunHook):
    """Warns that the workers are not watched."""

    def __init__(
        self, checkpoint_prefix: Any, saver: Any = None, on_shutdown_hooks: Any = None
    ) -> None:
        del checkpoint_prefix, saver, on_shutdown_hooks

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Logs a warning."""
        del session, coord
        tf.logging.warning(
            "TPU workers are not watched for preemption with TensorFlow 2.16 and newer. After one "
            "was lost, the same command goes on from the last checkpoint."
        )


class ResetComputation:
    """Does nothing when a worker is lost."""


ShutdownLameWorkers = ShutdownAllWorkers = ResetComputation


def start_worker_watchdog(session: Any, shutdown_timeout: Any = None, **kwargs: Any) -> NoReturn:
    """Refuses to start a watchdog, which TF_TPU_WATCHDOG_TIMEOUT asks for.

    Raises:
        NotImplementedError: Always.
    """
    del session, kwargs
    raise NotImplementedError(
        f"TF_TPU_WATCHDOG_TIMEOUT is {shutdown_timeout}, but TensorFlow 2.16 and newer cannot "
        "watch TPU workers. Run: unset TF_TPU_WATCHDOG_TIMEOUT"
    )
