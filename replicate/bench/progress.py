"""Progress of a benchmark, and an estimate of the time left: text for the standard error."""

from __future__ import annotations

import shutil
import statistics
import sys
import time
from typing import Callable, Sequence, TextIO

from replicate.bench import plan

_EVERY_S = 30  # Seconds between lines if there is no terminal.
_CLEAR = "\r\x1b[K"  # Moves to the beginning of the line, and clears it.


class Progress:
    """Shows the current run, and estimates the time that is left.

    The estimate of a run is the mean time of finished runs of the same setup with as many steps. If
    there are none, it is `plan.seconds`, scaled by the ratio of actual to estimated time of all
    finished runs. On a terminal one line is redrawn at each change; elsewhere a line is written
    from time to time.
    """

    def __init__(
        self,
        runs: Sequence[plan.Run],
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Makes the progress of a benchmark.

        Args:
            runs: The list of `plan.Run`s, in order.
            stream: The stream to write to; None: the standard error.
            clock: Function of no arguments that returns the time in seconds.
        """
        self._runs, self._clock = runs, clock
        self._stream = sys.stderr if stream is None else stream
        self._took: list[float] = []  # Seconds of each finished run.
        self._began = self._wrote = clock()

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self._runs)

    @property
    def done(self) -> int:
        """The number of finished runs."""
        return len(self._took)

    def announce(self) -> None:
        """Writes the number of runs and their estimated time, before the first run."""
        now = duration(self.left())
        on_gpus = any("GPU" in name for run in self._runs for name in run.setup.devices)
        known = "; no GPU was measured" if on_gpus else ""
        self.say(
            f"{self.count} runs, each in a separate process: about {now} on two idle CPU cores"
            f"{known}. Finished runs correct this. Ctrl-C prints the figures so far."
        )

    def begin(self) -> None:
        """Begins the next run."""
        self._began = self._clock()
        self.tick()

    def tick(self) -> None:
        """Shows the progress if it is due; call it often during a run."""
        if self._stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            self._write(_CLEAR + self._line()[:width])
        elif self._clock() - self._wrote >= _EVERY_S:
            self._wrote = self._clock()
            self._write(self._line() + "\n")

    def end(self) -> None:
        """Ends the current run."""
        now = self._clock()
        self._took.append(now - self._began)
        self._began = now

    def say(self, line: str) -> None:
        """Writes a line that stays."""
        self.clear()
        self._write(line + "\n")

    def clear(self) -> None:
        """Clears the redrawn line, so that others can write."""
        if self._stream.isatty():
            self._write(_CLEAR)

    def left(self) -> float:
        """Returns an estimate of the seconds that are left, with the current run."""
        expected = [self._expected(run) for run in self._runs[self.done :]]
        if expected:
            expected[0] = max(0.0, expected[0] - (self._clock() - self._began))
        return sum(expected)

    def _expected(self, run: plan.Run) -> float:
        took = list(zip(self._runs, self._took))
        alike = [seconds for other, seconds in took if other._replace(round=run.round) == run]
        if alike:
            return statistics.mean(alike)
        expected = sum(plan.seconds(other) for other, _ in took)
        return plan.seconds(run) * (sum(self._took) / expected if expected else 1.0)

    def _line(self) -> str:
        run = self._runs[self.done]
        part = "for its losses" if run.round is None else f"round {run.round}"
        return (
            f"[{self.done + 1}/{self.count}] {run.model}, {part}: {run.setup.title}; "
            f"about {duration(self.left())} left"
        )

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def duration(seconds: float) -> str:
    """Returns seconds as text, such as `40 s`, `3 min` or `1.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
