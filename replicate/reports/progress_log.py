"""Reports progress where no terminal shows it: log lines, and summaries of the rate."""

from __future__ import annotations

import datetime
from typing import NamedTuple

import tensorflow.compat.v1 as tf

TAG = "global_examples/sec"


class Mark(NamedTuple):
    """State of training at one time."""

    time: float  # In seconds; only differences have a meaning.
    step: int  # The global step.
    examples: int  # Rows since the session began.


class ProgressLog:
    """Logs lines that tell how far training is.

    Args:
        description: Text at the beginning of each line.
        total: Step at which training ends; None if it is not known.
    """

    def __init__(self, description: str, total: int | None) -> None:
        self._description = description
        self._total = total

    def draw(self, step: int, note: str, secs_per_step: float | None) -> None:
        """Logs a line.

        Args:
            step: The global step.
            note: Further text.
            secs_per_step: Duration of a step in seconds; None if it is not known.
        """
        parts = [f"step {step}" if self._total is None else f"step {step}/{self._total}", note]
        if secs_per_step is not None and self._total is not None and step < self._total:
            left = datetime.timedelta(seconds=round((self._total - step) * secs_per_step))
            parts.append(f"{left} left")
        tf.logging.info("%s: %s", self._description, ", ".join(filter(None, parts)))

    def close(self) -> None:
        """Does nothing."""


class RateSummary:
    """Writes the rate into the event file that the Estimator writes.

    Args:
        model_dir: Directory of the model.
    """

    def __init__(self, model_dir: str) -> None:
        # The Estimator's writer, because TensorBoard reads only the newest event file.
        self._writer = tf.summary.FileWriterCache.get(model_dir)

    def write(self, rate: float, step: int) -> None:
        """Writes a rate in examples per second at a global step."""
        summary = tf.Summary()
        summary.value.add(tag=TAG, simple_value=rate)
        self._writer.add_summary(summary, step)

    def flush(self) -> None:
        """Flushes the rates to the file."""
        self._writer.flush()
