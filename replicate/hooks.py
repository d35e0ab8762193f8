"""Session hooks that show progress, measure towers, save at a signal, and end what stands still.

A *step* is one increment of the global step. An *example* is one row of the whole batch.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TextIO

import tensorflow.compat.v1 as tf

from replicate.clusters import is_chief
from replicate.faults import PreemptionHook, StallError, StallHook, config_of
from replicate.reports import (
    Mark,
    ProgressBar,
    ProgressLog,
    RateSummary,
    TowerMonitorHook,
    import_tqdm,
    progress_values,
)

__all__ = ("PreemptionHook", "ProgressHook", "StallError", "StallHook", "TowerMonitorHook")


class ProgressHook(tf.train.SessionRunHook):
    """Shows a progress bar while an Estimator trains, or logs lines if there is no terminal.

    ```python
    progress = replicate.hooks.ProgressHook(total_steps=1000, batch_size=256)
    estimator.train(input_fn, max_steps=1000, hooks=[progress])
    ```

    ```
    training:  42%|████████         | 420/1000 [00:04<00:05, 26,880 examples/s, loss 0.1234]
    ```

    The bar counts global steps, so that a resumed run continues at its checkpoint's step.
    Throughput is measured over the steps between two redraws. The last redraw shows the mean over
    the whole run without its first step, which includes one-time setup. Log lines appear above the
    bar.

    If the output is not a terminal, e.g. on Slurm, on Kubernetes or in a file, `tf.logging.info`
    gets a line instead, at the first step, every `log_secs` and at the last step:

    ```
    training: step 420/1000, 26,880 examples/s, loss 0.1234, 0:00:05 left
    ```

    If the rows are known, the chief also writes the rate for TensorBoard into the Estimator's
    directory, as `global_examples/sec`; the Estimator itself writes steps per second.

    Loss and global step are fetched only when they are shown, not at every step. The bar is closed
    with the session, also if an exception ends training, so that a traceback starts on a new line.
    One hook may serve several calls of `train`, one after the other.

    The bar is drawn by `tqdm`: `pip install 'replicate-estimator[progress]'`.

    Args:
        total_steps: The global step at which training ends, i.e. the `max_steps` given to
            `Estimator.train`. With neither this nor `steps` the bar has no end.
        batch_size: Rows of the whole batch, all towers together: an int > 0, or an integer
            tensor of shape [] or its name, read at every step. None: the count that
            `replicate_model_fn` makes; without it, steps per second are shown instead of examples
            per second.
        steps: Number of steps of this call, i.e. the `steps` given to `Estimator.train`. Excludes
            `total_steps`.
        loss: The float tensor of shape [] to show, or its name in the training graph. None: the
            last tensor of `tf.losses.get_losses()`, to which the Estimator adds the loss of its
            `EstimatorSpec` just before training starts; no loss is shown if there is none. Without
            an Estimator, pass the loss.
        description: Text before the bar.
        every_secs: Seconds between two redraws, >= 0. 0 redraws at every step.
        stream: The text stream to draw on. None: `sys.stderr` at the time training starts.
        log_secs: Seconds between two lines of the log, and between two summaries, >= 0; on a
            terminal, summaries wait for a redraw. None: neither lines nor summaries.
        config: The Estimator's `RunConfig`, i.e. `estimator.config`, which says where summaries go
            and whether this is the chief. None: the `RunConfig` of `replicate_model_fn`; without
            that, there are no summaries.

    Raises:
        ImportError: If `tqdm` is not installed.
        ValueError: If both `total_steps` and `steps` are given, a number is out of range, or
            `config` has no `model_dir`.
        TypeError: If an argument for a number is anything else.
    """

    def __init__(
        self,
        total_steps: int | None = None,
        batch_size: int | str | tf.Tensor | None = None,
        *,
        steps: int | None = None,
        loss: str | tf.Tensor | None = None,
        description: str = "training",
        every_secs: float = 0.1,
        stream: TextIO | None = None,
        log_secs: float | None = 30.0,
        config: tf.estimator.RunConfig | None = None,
    ) -> None:
        if total_steps is not None and steps is not None:
            raise ValueError(
                "Give `total_steps`, the global step at which training ends, or `steps`, the "
                f"number of steps of this run, but not both; got total_steps={total_steps!r} and "
                f"steps={steps!r}. Drop the one that `Estimator.train` is not given."
            )
        progress_values.check_count("total_steps", total_steps)
        progress_values.check_count("steps", steps)
        if not isinstance(batch_size, (str, tf.Tensor)):
            progress_values.check_count("batch_size", batch_size)
        if not every_secs >= 0:
            raise ValueError(
                f"`every_secs` must be at least 0 seconds, but is {every_secs!r}. Pass 0 to redraw "
                "at every step."
            )
        if not (log_secs is None or log_secs >= 0):
            raise ValueError(
                f"`log_secs` must be at least 0 seconds, or None, but is {log_secs!r}. Pass 0 for "
                "a line at every step, or None for none."
            )
        progress_values.check_config(config)
        import_tqdm()  # Raises before training starts if it is missing.
        self._total_steps = total_steps
        self._steps = steps
        self._batch_size_arg = batch_size
        self._loss_arg = loss
        self._description = description
        self._every_secs = every_secs
        self._stream_arg = stream
        self._log_secs = log_secs
        self._config_arg = config
        self._bar: ProgressBar | ProgressLog | None = None

    def begin(self) -> None:
        """Finds the tensors to watch. Called by the session, before the graph is finalized."""
        self._stream = sys.stderr if self._stream_arg is None else self._stream_arg
        self._on_terminal = bool(getattr(self._stream, "isatty", lambda: False)())
        self._active = self._on_terminal or self._log_secs is not None
        if not self._active:
            return
        self._global_step = progress_values.global_step("ProgressHook")
        self._total = self._total_steps
        self._loss = progress_values.loss_tensor(self._loss_arg)
        self._batch_size = progress_values.batch_size(self._batch_size_arg)
        self._summary = self._find_summary()

    def _find_summary(self) -> RateSummary | None:
        """Returns the chief's `RateSummary`; None if no rate is to be written."""
        config = self._config_arg or config_of(tf.get_default_graph())
        has_rate = self._log_secs is not None and self._batch_size is not None
        if not has_rate or config is None or not is_chief(config):
            return None
        return RateSummary(config.model_dir)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Draws the bar at the global step from which training starts or resumes."""
        if not self._active:
            return
        self._close()  # Of an earlier session, which a preemption ended without `end`.
        start = int(session.run(self._global_step))
        if self._total is None and self._steps is not None:
            self._total = start + self._steps
        self._step = start
        self._runs = 0  # Runs since `_step` was read.
        self._examples = 0
        self._first: Mark | None = None  # After the first step, which includes one-time setup.
        self._drawn: Mark | None = None  # At the last redraw.
        self._written: Mark | None = None  # At the last summary.
        self._rate: str | None = None
        self._secs_per_step: float | None = None
        self._last_loss: float | None = None
        if not self._on_terminal:
            self._bar = ProgressLog(self._description, self._total)
            return
        self._bar = ProgressBar(self._description, self._stream, start, self._total)
        # A session calls `end` only if it ended without an error. Its coordinator notifies this
        # thread in both cases, and waits for it before it raises the error.
        closer = threading.Thread(
            target=_close_with_session,
            args=(coord, self._bar),
            name="replicate-progress",
            daemon=True,
        )
        closer.start()
        coord.register_thread(closer)

    def before_run(self, run_context: tf.train.SessionRunContext) -> tf.train.SessionRunArgs | None:
        """Fetches the loss if the bar is to be redrawn, and the rows if they may vary."""
        if self._bar is None:
            return None
        self._redraw = (
            self._drawn is None
            or time.perf_counter() - self._drawn.time >= self._period()
            or (self._total is not None and self._step + self._runs + 1 >= self._total)
        )
        fetches = {}
        if self._redraw and self._loss is not None:
            fetches["loss"] = self._loss
        if isinstance(self._batch_size, tf.Tensor):
            fetches["rows"] = self._batch_size
        return tf.train.SessionRunArgs(fetches) if fetches else None

    def after_run(
        self, run_context: tf.train.SessionRunContext, run_values: tf.train.SessionRunValues
    ) -> None:
        """Counts the step, and redraws the bar if a redraw is due."""
        if self._bar is None:
            return
        fetched = run_values.results or {}
        self._runs += 1
        self._examples += int(fetched.get("rows", 0))
        if not self._redraw:
            return
        if "loss" in fetched:
            self._last_loss = float(fetched["loss"])
        self._read_step(run_context.session)
        self._draw(self._bar)

    def end(self, session: tf.Session) -> None:
        """Draws the bar a last time. Called by the session when training ended without error."""
        if self._bar is None:
            return
        self._read_step(session)
        if self._on_terminal:
            self._draw(self._bar, is_last=True)
        elif self._drawn is not None and self._drawn.step != self._step:
            self._last_loss = None  # It belongs to an earlier step.
            self._draw(self._bar)
        if self._summary is not None and self._drawn is not None:
            self._summarise(self._summary, self._drawn, is_last=True)
            self._summary.flush()
        self._close()

    def _period(self) -> float:
        """Returns the seconds between two redraws, or between two lines."""
        return self._every_secs if self._on_terminal else self._log_secs or 0.0

    def _read_step(self, session: tf.Session) -> None:
        """Updates the counts; one run may have made several steps, or none."""
        step = int(session.run(self._global_step))
        if isinstance(self._batch_size, int):
            # On TPU cores, a run may read several batches; with accumulation, a step does.
            self._examples += max(step - self._step, self._runs) * self._batch_size
        self._step = step
        self._runs = 0

    def _draw(self, bar: ProgressBar | ProgressLog, is_last: bool = False) -> None:
        """Redraws the bar, or logs a line, with the counts of `_read_step`."""
        now = Mark(time.perf_counter(), self._step, self._examples)
        since = self._first if is_last else self._drawn
        if since is not None and now.time > since.time and now.step > since.step:
            seconds = now.time - since.time
            self._secs_per_step = seconds / (now.step - since.step)
            if self._batch_size is None:
                self._rate = f"{(now.step - since.step) / seconds:,.1f} steps/s"
            else:
                self._rate = f"{(now.examples - since.examples) / seconds:,.0f} examples/s"
        self._first = self._first or now
        self._drawn = now
        if self._summary is not None:
            self._summarise(self._summary, now)
        loss = None if self._last_loss is None else f"loss {self._last_loss:.4g}"
        bar.draw(self._step, ", ".join(filter(None, (self._rate, loss))), self._secs_per_step)

    def _summarise(self, summary: RateSummary, now: Mark, is_last: bool = False) -> None:
        """Writes the rate since the last summary if one is due."""
        since = self._written = self._written or now
        seconds = now.time - since.time
        is_due = is_last or seconds >= (self._log_secs or 0.0)
        if is_due and seconds > 0 and now.step > since.step:
            summary.write((now.examples - since.examples) / seconds, now.step)
            self._written = now

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _close_with_session(coord: tf.train.Coordinator, bar: ProgressBar) -> None:
    """Thread: closes `bar` when the session of `coord` stops, for any reason."""
    coord.wait_for_stop()
    bar.close()
