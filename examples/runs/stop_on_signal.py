"""Ctrl-C ends a training run such that nothing is lost."""

import os
import signal
import threading

import tensorflow.compat.v1 as tf

_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # Ctrl-C; what clusters send before they end a job
_NOTICE = b"\nStopping after this step; it will be saved. Once more stops at once.\n"


class StopOnSignal(tf.train.SessionRunHook):
    """Ends training after the current step when the process is told to stop.

    Training then ends as if it had come to its last step, so that the Estimator saves a checkpoint
    from which it can resume. The second signal acts as it would without the hook. Before the first
    step, while the graph is built, there is nothing to save: signals act as they would, too.

    Use it as a context, at the end of which signals act as they did before:

        with stop:
            estimator.train(input_fn, max_steps=1000, hooks=[stop])

    A loop without a session calls `catch` in that context, and looks at `is_stopped`.

    Signals reach the main thread only. In another one the hook does nothing.

    Attributes:
        is_stopped: Whether training was ended by a signal.
    """

    def __init__(self):
        self.is_stopped = False
        self._previous = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._restore()

    def after_create_session(self, session, coord):
        """Takes over the signals."""
        self.catch()

    def catch(self):
        """Takes over the signals, in the main thread."""
        if threading.current_thread() is threading.main_thread() and not self._previous:
            self._previous = {number: signal.signal(number, self._handle) for number in _SIGNALS}

    def after_run(self, run_context, run_values):
        """Ends training if a signal came."""
        if self.is_stopped:
            run_context.request_stop()

    def end(self, session):
        """Gives the signals back."""
        self._restore()

    def _handle(self, number, frame):
        self.is_stopped = True
        self._restore()
        os.write(2, _NOTICE)  # Not `print`, which the signal may have interrupted.

    def _restore(self):
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
