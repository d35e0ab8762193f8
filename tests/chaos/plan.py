"""Draws from a seed which faults hit a job: the kind of each, its task, when, and for how long.

The same seed gives the same plan on every Python, because only `Random.random` is used. Nothing
here knows of processes.
"""

from __future__ import annotations

import random
from typing import NamedTuple

EVERYWHERE = ("worker", "chief", "ps")
ALL = "all"  # Instead of the name of a task.


class Kind(NamedTuple):
    """A kind of fault.

    Attributes:
        jobs: Jobs whose tasks it hits, in turn.
        seconds: The shortest and the longest time that it lasts.
        ways: Variations, in turn.
        ends_task: Whether the task ends, and is started again.
    """

    jobs: tuple
    seconds: tuple = (0, 0)
    ways: tuple = ("",)
    ends_task: bool = True


KINDS = {
    "kill": Kind(EVERYWHERE),
    "stop": Kind(EVERYWHERE, (2, 8), ends_task=False),
    "slow": Kind(EVERYWHERE, (4, 10), ends_task=False),
    "preempt": Kind(EVERYWHERE),
    "disk": Kind(("chief",), (6, 15), ends_task=False),
    "checkpoint": Kind(
        ("chief",), ways=("cut data", "cut index", "flip data", "no data", "bad state", "no state")
    ),
    "port": Kind(EVERYWHERE, (8, 15)),
    "save": Kind(("chief", "ps")),
}
"""Kinds of which each is drawn before any is drawn again."""
RARE = {
    "hang": Kind(("worker",), ends_task=False),  # It lasts longer than `StallHook` allows.
    "all": Kind((ALL,)),
}
"""Kinds that take minutes; in a long run, each job has one."""
KNOWN = {**KINDS, **RARE}

SECOND = ("kill", "stop", "slow", "preempt", "port")
"""Kinds that may hit while another fault is not over yet."""
MOST_DOWN = 2  # Tasks at once, except by `all`.
_PAIRS = 0.3  # Share of faults that a second one follows.
_AFTER_S = 12  # Longest time until then.
_WAIT_S = 5  # Longest time until an orchestrator starts a task again.
_FIRST, _LAST = 0.04, 0.98  # The share of all steps after which the first and the last fault come.


class Fault(NamedTuple):
    """A fault of a plan."""

    at: float
    """When its group begins, as a share of the job's steps."""
    after: float
    """Seconds after the group's beginning."""
    kind: str
    task: str
    """The task that it hits, such as `worker/0`; `ALL`: all of them."""
    seconds: float
    """How long it lasts, if it does."""
    wait: float
    """Seconds until a task that ended is started again."""
    way: str
    """Its variation; empty if there is only one."""


def draw(seed, counts, workers, ps, rare=False):
    """Draws the faults of jobs.

    Args:
        seed: An integer.
        counts: Number of groups of faults in each job. A group has one fault, or two that overlap.
        workers: Number of tasks named `worker`.
        ps: Number of parameter servers.
        rare: Whether each job has the faults of `RARE`, too, if it has groups enough.

    Returns:
        A list of groups for each job; a group is a list of `Fault`.
    """
    return _Plan(seed, workers, ps).jobs(counts, rare)


def flat(groups):
    """Returns the faults of all groups, a list."""
    return [fault for group in groups for fault in group]


class _Plan:
    """Draws from one sequence of random numbers."""

    def __init__(self, seed, workers, ps):
        self._random = random.Random(int(seed))
        self._sizes = {"chief": 1, "worker": workers, "ps": ps}
        self._bag = []
        self._turns = {}

    def jobs(self, counts, rare):
        jobs = []
        for count in counts:
            extra = self._shuffled(RARE) if rare and count > len(KINDS) else []
            places = self._shuffled(range(count))[: len(extra)]
            kinds = dict(zip(places, extra))
            groups = []
            for i in range(count):
                share = (i + self._between(0.2, 0.8)) / count
                at = round(_FIRST + (_LAST - _FIRST) * share, 4)
                groups.append(self._group(at, kinds.get(i)))
            jobs.append(groups)
        return jobs

    def _group(self, at, kind):
        first = self._fault(at, 0.0, kind or self._next_kind())
        if first.kind in RARE or self._random.random() > _PAIRS:
            return [first]
        after = self._between(0, _AFTER_S)
        second = first
        while second.task == first.task:
            second = self._fault(at, after, self._pick(SECOND))
        return [first, second]

    def _fault(self, at, after, kind):
        known = KNOWN[kind]
        job = self._in_turn(kind, "job", known.jobs)
        task = job if job == ALL else f"{job}/{int(self._random.random() * self._sizes[job])}"
        way = self._in_turn(kind, "way", known.ways)
        wait = self._between(0, _WAIT_S)
        return Fault(at, after, kind, task, self._between(*known.seconds), wait, way)

    def _next_kind(self):
        if not self._bag:
            self._bag = self._shuffled(KINDS)
        return self._bag.pop()

    def _in_turn(self, kind, about, choices):
        """Returns the next of the choices; each of them comes before any is repeated."""
        left = self._turns.setdefault((kind, about), [])
        if not left:
            left.extend(self._shuffled(choices))
        return left.pop()

    def _between(self, least, most):
        return round(least + (most - least) * self._random.random(), 2)

    def _pick(self, choices):
        return choices[int(self._random.random() * len(choices))]

    def _shuffled(self, choices):
        keyed = [(self._random.random(), each) for each in choices]
        return [each for _, each in sorted(keyed, key=lambda pair: pair[0])]
