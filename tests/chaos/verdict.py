"""Judges what a cluster did under faults, by the events of its record; each rule is a function.

Each returns the problems it found, a list of sentences. An empty list means that the promises of
`docs/clusters.md` and `docs/faults.md` were kept.
"""

from __future__ import annotations

import collections
from typing import NamedTuple

from chaos.record import CHIEF

_RESTORE_S = 0.5  # The chief takes longer to start again, and to save after that.
NEAR_S = 15  # Seconds between what the chief restores and when it and others print it.


class Segment(NamedTuple):
    """Steps of one session of a task."""

    ready: int
    """The step that the session said it began at."""
    at: float
    made: list
    """The `Event` of each step."""


def segments(events, task):
    """Returns the `Segment`s of a task, those without a step left out."""
    found = []
    for event in (event for event in events if event.task == task):
        if event.kind == "ready":
            found.append(Segment(event.step, event.at, []))
        elif event.kind == "step" and found:
            found[-1].made.append(event)
    return [segment for segment in found if segment.made]


def order_problems(events, task):
    """Each session of a synchronous task makes every step from the first to its last, once."""
    problems = []
    for segment in segments(events, task):
        made = [event.step for event in segment.made]
        wanted = [*range(segment.ready, segment.ready + len(made))]
        if made != wanted:
            first = next(pair for pair in zip(made, wanted) if pair[0] != pair[1])
            problems.append(
                f"{task} began at step {segment.ready} at {segment.at:.1f} s, and made step "
                f"{first[0]} where {first[1]} was next"
            )
    return problems


def completeness_problems(events, task, steps):
    """A synchronous task makes all steps; those before a restart are repeated, and none skipped.

    One step may be missing between two sessions: it was made and saved, but the first one was lost
    before it could print the step. `lost_steps` looks whether another task printed it.
    """
    problems, next_step, allowed = [], 0, 0
    for segment in segments(events, task):
        first, last = segment.made[0].step, segment.made[-1].step
        if first > next_step + allowed:
            problems.append(f"{task} never made steps {next_step} to {first - 1}")
        next_step, allowed = last + 1, 1
    if next_step != steps:
        problems.append(f"{task} ended at step {next_step} of {steps}")
    return problems


def step_problems(events, trainers, steps):
    """Returns all problems of the steps of a synchronous job, whatever their losses are."""
    problems = lost_steps(events, steps)
    for task in trainers:
        problems += order_problems(events, task)
        problems += completeness_problems(events, task, steps)
    return problems


def lost_steps(events, steps):
    """Some task printed every step of a synchronous job."""
    made = {event.step for event in events if event.kind == "step"}
    lost = sorted({*range(steps)} - made)
    return [f"no task made steps {lost[:10]}, {len(lost)} in all"] if lost else []


def loss_problems(events, expected, tolerance):
    """Losses of a synchronous job, repeated ones too, are those of the uninterrupted one.

    Args:
        events: List of `Event`.
        expected: Losses of the uninterrupted job, by task and step.
        tolerance: Largest difference, relative to the largest expected loss. A small loss is the
            difference of large numbers, and has their rounding errors.

    Returns:
        The problems, and the largest difference, relative as well.
    """
    problems, largest, before = [], 0.0, {}
    scale = max(map(abs, expected.values()), default=1.0)
    for event in (event for event in events if event.kind == "step"):
        key = event.task, event.step
        wanted = expected.get(key)
        if wanted is None:
            problems.append(f"{event.task} made step {event.step}, which the other run has not")
            continue
        for other, name in ((wanted, "uninterrupted"), (before.get(key), "before")):
            if other is None:
                continue
            off = _difference(event.loss, other, scale)
            largest = max(largest, off)
            if not off <= tolerance:
                problems.append(
                    f"{event.task} had loss {event.loss!r} in step {event.step}, {other!r} {name}"
                )
        before[key] = event.loss
    return _short(problems), largest


def _difference(value, other, scale):
    """Returns the difference of two losses, relative to a scale; infinity if one is not finite."""
    if value == other:
        return 0.0
    off = abs(value - other) / max(scale, 1e-9)
    return off if off == off else float("inf")


class Restore(NamedTuple):
    """A session of the chief, which restores a checkpoint."""

    at: float
    ready: int
    """The step that it said it began at; asynchronous tasks may have made steps since."""
    newest: int
    """The step of the newest checkpoint shortly before, 0 if there was none."""
    whole: int
    """The step of the newest that no fault ever damaged."""
    error: str
    """The last error by which TensorFlow gave up a session of the chief since the one before."""


def restores(events, damaged=()):
    """Returns the `Restore`s of a job, in order; `damaged` has steps of checkpoints."""
    found, saved, error = [], [(float("-inf"), 0)], ""
    for event in events:
        if event.kind == "saved":
            saved.append((event.at, event.step))
        elif event.kind == "lost" and event.task == CHIEF:
            error = event.text
        elif event.kind == "ready" and event.task == CHIEF:
            # It saves at once what it has restored.
            until = [step for at, step in saved if at < event.at - _RESTORE_S]
            whole = [step for step in until if step not in damaged] or [0]
            found.append(Restore(event.at, event.step, until[-1], whole[-1], error))
            error = ""
    return found


def unexplained(events, causes):
    """Returns the `Restore`s of the chief before which no task was lost.

    Args:
        events: List of `Event`.
        causes: Names of the tasks whose loss makes the chief restore.
    """
    lost = [event.at for event in events if event.kind == "end" and event.task in causes]
    found = restores(events)
    pairs = zip(found, found[1:])
    return [new for old, new in pairs if not any(old.at < at < new.at for at in lost)]


def restore_problems(events, causes, damaged, is_sync):
    """The chief goes back only if a task was lost, and then to the newest whole checkpoint.

    A connection that breaks on an overloaded machine is such a loss, too: TensorFlow tells the two
    by nothing. Then it gives an error, which the verdict has among its `connections_lost`.

    Args:
        events: List of `Event`.
        causes: Names of the tasks whose loss makes the chief restore.
        damaged: Steps of the checkpoints that faults damaged, a set.
        is_sync: Whether tasks wait for one another. If not, they go on while the chief restores.
    """
    problems = [
        f"the chief restored step {restore.ready} at {restore.at:.1f} s, but no task was lost "
        "since it did before"
        for restore in unexplained(events, causes)
        if not restore.error
    ]
    for restore in restores(events, damaged):
        is_newest = restore.ready >= restore.whole
        if is_sync:  # One that was damaged may have been saved again.
            is_newest = restore.ready in (restore.newest, restore.whole)
        if not is_newest:
            problems.append(
                f"the chief restored step {restore.ready} at {restore.at:.1f} s, but step "
                f"{restore.newest} was saved"
            )
    saved = [event for event in events if event.kind == "saved"]
    for older, newer in zip(saved, saved[1:]):
        if newer.step < older.step and older.step not in damaged:
            problems.append(
                f"step {older.step} was saved, but at {newer.at:.1f} s the newest checkpoint has "
                f"step {newer.step}"
            )
    return problems


def told_problems(events, damaged, is_sync):
    """A chief that was told to leave resumes at the very next step."""
    problems, told = [], None
    for event in (event for event in events if event.task == CHIEF):
        if event.kind == "told":
            told = event.step
        elif event.kind == "ready" and told is not None:
            is_next = event.step == told if is_sync else event.step >= told
            if not is_next and told not in damaged:
                problems.append(f"the chief saved step {told} and left, but resumed {event.step}")
            told = None
    return problems


def drop_problems(events, trainers, damaged=()):
    """Steps of an asynchronous task are in order, until the chief restores a checkpoint."""
    problems, known = [], restores(events, damaged)[1:]
    for task in trainers:
        last = None
        for event in (event for event in events if event.task == task):
            if event.kind == "start":
                last = None
            if event.kind != "step":
                continue
            is_drop = last is not None and event.step <= last.step
            if is_drop and not any(
                last.at - NEAR_S <= restore.at <= event.at + NEAR_S and restore.whole <= event.step
                for restore in known
            ):
                problems.append(
                    f"{task} made step {event.step} after {last.step} at {event.at:.1f} s, but "
                    "the chief restored no checkpoint that explains it"
                )
            last = event
    return _short(problems)


def count_problems(events, trainers, counted):
    """The global step counts each step of an asynchronous job once, since the last restore.

    Steps that a task made when the chief restored, or was killed in, may be counted or not.

    Args:
        events: List of `Event`.
        trainers: Names of the tasks that make steps.
        counted: The global step at the end.
    """
    last = restores(events)[-1]
    made = collections.Counter()
    for task in trainers:
        steps = [event for event in events if event.task == task and event.kind == "step"]
        # From its last drop that may be the restore's.
        begin = next((i for i, e in enumerate(steps) if e.at >= last.at), len(steps))
        for i in range(1, len(steps)):
            is_near = abs(steps[i].at - last.at) <= NEAR_S
            if is_near and steps[i].step <= steps[i - 1].step:
                begin = i
        made[task] = len([step for step in steps[begin:] if step.step >= last.ready])
    ends = [e for e in events if e.kind == "end" and e.at > last.at and e.task in trainers]
    slack = 2 * len(trainers) + len(ends)
    total = sum(made.values())
    if abs(total - (counted - last.ready)) <= slack:
        return []
    return [
        f"tasks made {total} steps since the chief was ready at step {last.ready} for the last "
        f"time, but the global step counted {counted - last.ready}: {dict(made)}"
    ]


class Excuse(NamedTuple):
    """Lets a task end with an error.

    Attributes:
        begin: The time from which a fault lets it end.
        end: The time until which it does.
        task: The name of the task; None: any.
    """

    begin: float
    end: float
    task: str = None

    def holds_for(self, event):
        """Returns whether a task may end as the `Event` says."""
        return self.begin <= event.at <= self.end and self.task in (None, event.task)


class Stall(NamedTuple):
    """A task that stood still, until its `StallHook` ended it."""

    task: str
    begin: float
    """The time of its last step, or start."""
    end: float


def stalls(events, status, limit_secs):
    """Returns the `Stall`s of a job.

    Args:
        events: List of `Event`.
        status: That of a process that `StallHook` ends.
        limit_secs: How long its `StallHook`s wait for a step.
    """
    found, last = [], {}
    for event in events:
        if event.kind in ("start", "step"):
            last[event.task] = event.at
        elif event.kind == "end" and event.status == status:
            begin = last.get(event.task, 0.0)
            if event.at - begin >= limit_secs:
                found.append(Stall(event.task, begin, event.at))
    return found


def end_problems(events, excuses, stalled=()):
    """A task ends with an error only if a fault hit it, or it stood still.

    TensorFlow may wait forever, e.g. for an answer that was lost; `StallHook` ends the task then.

    Args:
        events: List of `Event`.
        excuses: List of `Excuse`.
        stalled: List of `Stall`.
    """
    problems = []
    known = {(stall.task, stall.end) for stall in stalled}
    for event in (event for event in events if event.kind == "end" and event.status):
        is_excused = any(excuse.holds_for(event) for excuse in excuses)
        if not is_excused and (event.task, event.at) not in known:
            problems.append(
                f"{event.task} ended with status {event.status} at {event.at:.1f} s, but no fault "
                "had hit it"
            )
    return problems


def _short(problems, most=5):
    """Returns the first problems, and how many more there are."""
    more = len(problems) - most
    return problems[:most] + ([f"and {more} more like this"] if more > 0 else [])
