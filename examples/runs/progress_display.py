"""How a person sees that something goes on: a bar on a terminal, elsewhere a few lines."""

import contextlib
import os
import time

from replicate.reports.progress_bar import ProgressBar, import_tqdm

_LINES = 10  # in all, where there is no terminal
_WIDE = 115  # columns of a terminal with room for whole words beside the bar


class Display:
    """Shows how a count grows: by a bar on a terminal, elsewhere by a line at each tenth.

    Args:
        title: What it is that goes on, such as "search".
        noun: What is counted, such as "step".
        first: The count at the start, when the time starts as well.
        total: The count at the end.
        stream: Text stream to write to.

    Attributes:
        start: When it was made, in seconds of `time.perf_counter`.
    """

    def __init__(self, title, noun, first, total, stream):
        self.start = time.perf_counter()
        self._title, self._noun, self._first, self._total = title, noun, first, total
        self._shown = first
        self._stream = stream
        self._bar = None
        if getattr(stream, "isatty", lambda: False)():
            self._bar = ProgressBar(title, stream, first, total)

    def show(self, count, note=lambda wide: ""):
        """Shows the count; `note` returns the text after it, long if there is space."""
        before, self._shown = self._shown, count
        if self._bar is not None:
            self._bar.draw(count, note(_columns(self._stream) >= _WIDE))
        elif count * _LINES // self._total > before * _LINES // self._total:
            print(self._line(note(True)), file=self._stream, flush=True)

    def close(self):
        """Leaves the screen as it is."""
        if self._bar is not None:
            self._bar.close()

    def _line(self, note):
        interval = import_tqdm().tqdm.format_interval
        elapsed = time.perf_counter() - self.start
        left = elapsed / (self._shown - self._first) * (self._total - self._shown)
        count = f"{self._title}: {self._noun} {self._shown:,} of {self._total:,}"
        times = f"{interval(elapsed)} so far, {interval(left)} to go"
        return ", ".join(part for part in (count, times, note) if part)


def _columns(stream):
    """Returns how wide a terminal is."""
    with contextlib.suppress(OSError):
        return os.get_terminal_size(stream.fileno()).columns
    return 80
