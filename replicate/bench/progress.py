"""What a benchmark is at, and how long it still takes: text for the standard error."""

import shutil
import statistics
import sys
import time

from replicate.bench import plan

_EVERY_S = 30  # Seconds between lines where there is no terminal.
_CLEAR = "\r\x1b[K"  # To the line's begin, and away with what is there.


class Progress:
    """Tells which run is going on, and estimates the time that is left.

    A run is expected to take what others of its way and as many steps took; if there were none, the
    seconds of `plan.seconds` times what those that are done took of theirs. On a terminal one line
    is drawn anew whenever there is something to say; elsewhere a line is written from time to time.
    """

    def __init__(self, runs, stream=None, clock=time.monotonic):
        """Makes what tells of `runs`, a list of `plan.Run`s in their order.

        Args:
            runs: The list.
            stream: Where it is written; None: the standard error.
            clock: Function of no arguments that returns the time in seconds.
        """
        self._runs, self._clock = runs, clock
        self._stream = sys.stderr if stream is None else stream
        self._took = []  # Seconds of each run that is done.
        self._began = self._wrote = clock()

    @property
    def count(self):
        """How many runs there are."""
        return len(self._runs)

    @property
    def done(self):
        """How many runs are done."""
        return len(self._took)

    def announce(self):
        """Says how much there is to do, before the first run."""
        now = duration(self.left())
        on_gpus = any("GPU" in name for run in self._runs for name in run.way.devices)
        known = "; no GPU was measured" if on_gpus else ""
        self.say(
            f"{self.count} runs, each in a process of its own: about {now} on two idle CPU cores"
            f"{known}. Runs that end correct this. Ctrl-C ends it, and prints what was measured."
        )

    def begin(self):
        """Begins the next run."""
        self._began = self._clock()
        self.tick()

    def tick(self):
        """Says what is going on, if it is time for it; to be called often while a run lasts."""
        if self._stream.isatty():
            width = shutil.get_terminal_size().columns - 1
            self._write(_CLEAR + self._line()[:width])
        elif self._clock() - self._wrote >= _EVERY_S:
            self._wrote = self._clock()
            self._write(self._line() + "\n")

    def end(self):
        """Ends the run that was begun last."""
        now = self._clock()
        self._took.append(now - self._began)
        self._began = now

    def say(self, line):
        """Writes a line that stays."""
        self.clear()
        self._write(line + "\n")

    def clear(self):
        """Takes away the line that is drawn anew, so that others can write."""
        if self._stream.isatty():
            self._write(_CLEAR)

    def left(self):
        """Returns about how many seconds are left, the run that is going on included."""
        ahead = [self._expected(run) for run in self._runs[self.done :]]
        if ahead:
            ahead[0] = max(0.0, ahead[0] - (self._clock() - self._began))
        return sum(ahead)

    def _expected(self, run):
        took = list(zip(self._runs, self._took))
        alike = [seconds for other, seconds in took if other._replace(round=run.round) == run]
        if alike:
            return statistics.mean(alike)
        expected = sum(plan.seconds(other) for other, _ in took)
        return plan.seconds(run) * (sum(self._took) / expected if expected else 1.0)

    def _line(self):
        run = self._runs[self.done]
        what = "for its losses" if run.round is None else f"round {run.round}"
        return (
            f"[{self.done + 1}/{self.count}] {run.model}, {what}: {run.way.title}; "
            f"about {duration(self.left())} left"
        )

    def _write(self, text):
        self._stream.write(text)
        self._stream.flush()


def duration(seconds):
    """Returns seconds as text, such as `40 s`, `3 min` or `1.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
