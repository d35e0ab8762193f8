"""Records when each task of a cluster starts, makes steps and ends, and what each fault cost."""

from __future__ import annotations

import re
import threading
import time
from typing import NamedTuple

CHIEF = "chief/0"
_MOST_TEXT = 100
_LINES = (
    ("ready", re.compile(r"^ready at step (\d+)$")),
    ("step", re.compile(r"^step (\d+) loss (\S+)$")),
    ("told", re.compile(r"told to leave; step (\d+) is saved")),
)
_LOST = re.compile(r"^INFO:tensorflow:An error was raised\b.* Error: (.*)$")
# Lines of its error that only lead to the next: "Graph execution error:", "From /job:ps/task:0:".
_LEADS = re.compile(r"^(.*:|=*)$")


class Event(NamedTuple):
    """Something that happened to a task."""

    at: float
    """Seconds since the record began."""
    task: str
    kind: str
    """`start` or `end` of its process; `ready`: it has a session; `lost`: TensorFlow gives its
    session up; `step`: it made one; `told`: it saved because it was told to leave; `saved`: the
    newest checkpoint is another one."""
    step: int = -1
    loss: float = float("nan")
    status: int = 0
    """Exit status, of an end."""
    text: str = ""
    """The error, of a session that is lost."""


class Record:
    """Events of all tasks, in order; any thread may add to it.

    Args:
        clock: Function that returns the time in seconds, a float.
    """

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._begun = clock()
        self._lock = threading.Lock()
        self._in_error = set()  # Tasks whose next lines say why the session is lost.
        self.events = []

    def now(self):
        """Returns the seconds since the record began."""
        return self._clock() - self._begun

    def add(self, task, kind, step=-1, **fields):
        """Adds an event that happens now."""
        with self._lock:
            self.events.append(Event(self.now(), task, kind, step, **fields))

    def heard(self, task, line):
        """Takes a line that a task printed."""
        lost = _LOST.search(line)
        text = lost[1] if lost else line.strip()
        if lost:
            self._in_error.add(task)
        if task in self._in_error and not _LEADS.match(text):
            self._in_error.remove(task)
            self.add(task, "lost", text=text[:_MOST_TEXT])
        for kind, pattern in _LINES:
            match = pattern.search(line)
            if match:
                loss = float(match[2]) if kind == "step" else float("nan")
                self.add(task, kind, int(match[1]), loss=loss)

    def step(self):
        """Returns the step that the job is at: the last one that was made, -1 if there is none."""
        return current(self.events, len(self.events), 1)

    def repeated(self):
        """Returns how many steps tasks made again, a number of lines over all tasks."""
        made = [(event.task, event.step) for event in self.events if event.kind == "step"]
        return len(made) - len({*made})

    def has_worked(self, task):
        """Whether a task has made a step since its process was started."""
        for event in reversed(self.events):
            if event.task == task and event.kind in ("start", "step", "end"):
                return event.kind == "step"
        return False


def current(events, end, trainers):
    """Returns the highest of the last steps that were made before index `end` of the events.

    Args:
        events: List of `Event`.
        end: Index.
        trainers: How many of the last steps count: one of each task that makes steps, since lines
            of several tasks may come in another order than they were printed.
    """
    found = []
    while end > 0 and len(found) < trainers:
        end -= 1
        if events[end].kind == "step":
            found.append(events[end].step)
    return max(found, default=-1)


def index_at(events, at):
    """Returns the index of the first event at a time or later."""
    low, high = 0, len(events)
    while low < high:
        middle = (low + high) // 2
        if events[middle].at < at:
            low = middle + 1
        else:
            high = middle
    return low


class Cost(NamedTuple):
    """Describes the effect of a fault on a job; None: there was none, or it was not seen."""

    cost_s: float | None
    """Seconds until the job made a step that began after the fault, and was not undone."""
    task_s: float | None
    """Seconds until the task that it hit, if that was started again, made a step."""
    back: int | None
    """How many steps the job went back, if the chief restored a checkpoint."""


def cost(events, at, task, in_flight, trainers, is_undone=False):
    """Returns the `Cost` of a fault, as far as the events show it.

    Args:
        events: List of `Event`.
        at: Time of the fault.
        task: Name of the task that it hit.
        in_flight: How many steps may have begun before the fault and still be counted.
        trainers: Number of tasks that make steps.
        is_undone: Whether asynchronous tasks go on until the chief restores, which undoes it.
    """
    begin = index_at(events, at)
    target = current(events, begin, trainers) + in_flight
    made = own = back = None
    started = False
    for i in range(begin, len(events)):
        event = events[i]
        is_new = back is not None if is_undone else event.step > target
        if event.kind == "step" and made is None and is_new:
            made = event.at - at
        elif event.kind == "start" and event.task == task:
            started = True
        elif event.kind == "ready" and event.task == CHIEF and back is None:
            # Asynchronous tasks go on until it restores.
            made_until = max((e.step for e in events[begin:i] if e.kind == "step"), default=-1)
            highest = max(made_until, current(events, begin, trainers))
            back = max(0, highest + 1 - event.step)
        if event.kind == "step" and event.task == task and started and own is None:
            own = event.at - at
        if made is not None and own is not None and back is not None:
            break
    return Cost(made, own, back)
