"""What training leaves behind where no one watches: lines of a log, and summaries of the rate."""

import datetime

import tensorflow.compat.v1 as tf

TAG = "global_examples/sec"


class ProgressLog:
    """Writes a line of how far training is.

    Args:
        description: What stands at the beginning.
        total: Step at which training ends; None if that is not known.
    """

    def __init__(self, description, total):
        self._description = description
        self._total = total

    def draw(self, step, note, secs_per_step):
        """Logs a line.

        Args:
            step: The global step.
            note: What else there is to say.
            secs_per_step: How long a step takes, in seconds; None if it is not known.
        """
        parts = [f"step {step}" if self._total is None else f"step {step}/{self._total}", note]
        if secs_per_step is not None and self._total is not None and step < self._total:
            left = datetime.timedelta(seconds=round((self._total - step) * secs_per_step))
            parts.append(f"{left} left")
        tf.logging.info("%s: %s", self._description, ", ".join(filter(None, parts)))

    def close(self):
        """Does nothing."""


class RateSummary:
    """Writes the rate into the event file that the Estimator writes.

    Args:
        model_dir: Directory of the model.
    """

    def __init__(self, model_dir):
        # The Estimator's own, for TensorBoard reads the file that was begun last.
        self._writer = tf.summary.FileWriterCache.get(model_dir)

    def write(self, rate, step):
        """Writes a rate in examples per second at a global step."""
        summary = tf.Summary()
        summary.value.add(tag=TAG, simple_value=rate)
        self._writer.add_summary(summary, step)

    def flush(self):
        """Sees to it that what was written is in the file."""
        self._writer.flush()
