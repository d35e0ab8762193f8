"""A progress bar on a terminal, drawn by `tqdm`, that log lines do not break."""

import contextlib
import logging
import sys
import threading

import tensorflow.compat.v1 as tf


def import_tqdm():
    """Returns the module `tqdm`, with `tqdm.contrib.logging` loaded.

    Raises:
        ImportError: If it is not installed.
    """
    try:
        import tqdm
        import tqdm.contrib.logging
    except ImportError as error:
        raise ImportError(
            f"ProgressHook draws its bar with `tqdm`, which does not import here ({error}). Run "
            "`pip install 'replicate-estimator[progress]'`, or train without the hook."
        ) from error
    return tqdm


class ProgressBar:
    """A bar that counts steps. Any thread may close it.

    Args:
        description: What stands before the bar.
        stream: The text stream to draw on, a terminal.
        start: Step that the bar starts at.
        total: Step that it ends at; None for a bar without end.
    """

    def __init__(self, description, stream, start, total):
        tqdm = import_tqdm()

        class Bar(tqdm.tqdm):
            monitor_interval = 0  # redraws are timed by the caller: needs no thread to watch them

        steps = "{percentage:3.0f}%|{bar}| {n}/{total} [{elapsed}<{remaining}{postfix}]"
        self._lock = threading.Lock()
        self._bar = Bar(
            total=total,
            initial=start,
            desc=description,
            file=stream,
            bar_format="{desc}: " + (steps if total else "{n} steps [{elapsed}{postfix}]"),
            mininterval=0,  # redraw at every update: `draw` is called when a redraw is due
            miniters=1,
            dynamic_ncols=True,
        )
        # Only loggers that write to the screen: the others would get one more place to write to.
        loggers = [
            logger
            for logger in (tf.get_logger(), logging.getLogger())
            if any(
                getattr(handler, "stream", None) in (sys.stdout, sys.stderr)
                for handler in logger.handlers
            )
        ]
        self._logs = contextlib.ExitStack()
        self._logs.enter_context(
            tqdm.contrib.logging.logging_redirect_tqdm(loggers, tqdm_class=Bar)
        )

    def draw(self, step, note, secs_per_step=None):
        """Redraws the bar at `step`, with the text `note` behind it; it tells time by itself."""
        del secs_per_step
        with self._lock:
            if self._bar is None:
                return
            self._bar.set_postfix_str(note, refresh=False)
            if step != self._bar.n:
                self._bar.update(step - self._bar.n)  # redraws
            else:
                self._bar.refresh()

    def close(self):
        """Leaves the bar on the screen as it is; a closed bar stays closed."""
        with self._lock:
            if self._bar is not None:
                self._logs.close()
                self._bar.close()
                self._bar = None
