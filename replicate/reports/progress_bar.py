"""Draws a progress bar on a terminal with `tqdm`; log lines do not break it."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from typing import Any

import tensorflow.compat.v1 as tf


def import_tqdm() -> Any:
    """Returns the module `tqdm`, with `tqdm.contrib.logging` loaded.

    Raises:
        ImportError: If `tqdm` is not installed.
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
        description: Text before the bar.
        stream: The text stream to draw on, a terminal.
        start: Step that the bar starts at.
        total: Step that the bar ends at; None for a bar without end.
    """

    def __init__(self, description: str, stream: Any, start: int, total: int | None) -> None:
        tqdm = import_tqdm()

        class Bar(tqdm.tqdm):  # type: ignore[name-defined]
            monitor_interval = 0  # The caller times redraws, so no thread need watch them.

        steps = "{percentage:3.0f}%|{bar}| {n}/{total} [{elapsed}<{remaining}{postfix}]"
        self._lock = threading.Lock()
        self._bar: Any = Bar(
            total=total,
            initial=start,
            desc=description,
            file=stream,
            bar_format="{desc}: " + (steps if total else "{n} steps [{elapsed}{postfix}]"),
            mininterval=0,  # `draw` is called when a redraw is due: redraw at every update.
            miniters=1,
            dynamic_ncols=True,
        )
        # Redirect only loggers that write to the screen: any other one would start to do so.
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

    def draw(self, step: int, note: str, secs_per_step: float | None = None) -> None:
        """Redraws the bar at `step`, with the text `note` after it."""
        del secs_per_step  # `tqdm` estimates the time itself.
        with self._lock:
            if self._bar is None:
                return
            self._bar.set_postfix_str(note, refresh=False)
            if step != self._bar.n:
                self._bar.update(step - self._bar.n)  # Redraws, too.
            else:
                self._bar.refresh()

    def close(self) -> None:
        """Leaves the bar on the screen as it is; a closed bar stays closed."""
        with self._lock:
            if self._bar is not None:
                self._logs.close()
                self._bar.close()
                self._bar = None
