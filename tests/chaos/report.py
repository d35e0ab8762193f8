"""Reports faults and what each cost, and judges the jobs of a run as a whole."""

from __future__ import annotations

import collections
import statistics

import numpy as np

from chaos import plan, record, verdict
from chaos.record import CHIEF

_AFTER_S = {"port": 30, "disk": 15, "hang": 150, "all": 10}
"""Seconds after a fault in which tasks may still end by it, if more than `_SOON_S`."""
_SOON_S = 5
LEFT, KILLED, TOLD = 143, -9, -15  # Statuses of tasks that are preempted.
STALLED = 138  # `StallHook.EXIT_STATUS`; that module imports TensorFlow.


def losses(events):
    """Returns the last loss of each step, by task and step."""
    return {(event.task, event.step): event.loss for event in events if event.kind == "step"}


class Reports:
    """Prints a line for each fault, as soon as it is known what the fault cost.

    Args:
        job: The `Job`.
        happened: List of `Happening`, which grows.
        say: Function of a dict, which prints it.
    """

    def __init__(self, job, happened, say):
        self._job = job
        self._happened = happened
        self._say = say
        self._said = 0
        self._next = 0

    def say_settled(self):
        """Prints the lines of faults that are over, in order; looks once in a second."""
        if self._job.record.now() < self._next:
            return
        self._next = self._job.record.now() + 1
        while self._said < len(self._happened):
            one = self._happened[self._said]
            if one.ended is None or not is_settled(self._job, one):
                return
            self._print(one)

    def say_all(self):
        """Prints all lines that are left."""
        while self._said < len(self._happened):
            self._print(self._happened[self._said])

    def _print(self, one):
        self._said += 1
        self._say(line(self._job, one))


def cost_of(job, one):
    """Returns the `Cost` of a fault that happened."""
    trainers = len(job.cluster.trainers())
    in_flight = 1 if job.is_sync else trainers
    at, task = effect_at(job, one), one.fault.task
    ends_task = plan.KNOWN[one.fault.kind].ends_task or at > one.begun
    is_undone = ends_task and not task.startswith("worker/") and not job.is_sync
    return record.cost(job.record.events, at, task, in_flight, trainers, is_undone)


def effect_at(job, one):
    """Returns the time at which a fault took effect: when its task ended, if it has to save."""
    if one.fault.kind == "disk":
        until = (one.begun if one.ended is None else one.ended) + _AFTER_S["disk"]
        events = job.record.events
        for event in events[record.index_at(events, one.begun) :]:
            if event.kind == "end" and event.task == one.fault.task and event.at < until:
                return event.at
    return one.begun


def is_settled(job, one):
    """Whether it is known what a fault cost."""
    if one.begun is None:
        return True
    found = cost_of(job, one)
    is_early = one.fault.kind == "disk" and effect_at(job, one) == one.begun
    if is_early and job.record.now() < one.ended + _AFTER_S["disk"]:
        return False  # The next save may show it.
    ends_task = plan.KNOWN[one.fault.kind].ends_task or effect_at(job, one) > one.begun
    if found.cost_s is None or not ends_task:
        return found.cost_s is not None
    if one.fault.task.startswith("ps/") or one.fault.task == plan.ALL:
        return found.back is not None
    return found.task_s is not None


def line(job, one):
    """Returns the report on a fault, a dict."""
    fault = one.fault
    said = {"job": job.name, "kind": fault.kind, "task": fault.task}
    if one.facts.get("way") or fault.way:
        said["way"] = one.facts.get("way") or fault.way
    if one.begun is None:
        return {**said, "skipped": one.facts.get("skipped", "it was not over")}
    events, found = job.record.events, cost_of(job, one)
    begin = record.index_at(events, one.begun)
    said["at_s"] = round(one.begun, 1)
    said["at_step"] = record.current(events, begin, len(job.cluster.trainers()))
    if one.ended is not None:
        said["lasted_s"] = round(one.ended - one.begun, 1)
    for name, value in found._asdict().items():
        said[name] = None if value is None else round(value, 2)
    if "skipped" in one.facts:
        said["failed"] = one.facts["skipped"]
    return said


def costs(job, happened):
    """Returns the number of faults, and the median and the longest cost, by kind."""
    found, numbers = collections.defaultdict(list), collections.Counter()
    for one in happened:
        if one.begun is None:
            continue
        numbers[one.fault.kind] += 1
        cost_s = cost_of(job, one).cost_s
        if cost_s is not None:
            found[one.fault.kind].append(cost_s)
    return {
        kind: {
            "faults": numbers[kind],
            "median_s": round(statistics.median(found[kind]), 2) if found[kind] else None,
            "longest_s": round(max(found[kind]), 2) if found[kind] else None,
        }
        for kind in sorted(numbers)
    }


def excuses(happened):
    """Returns which tasks faults let end, and when: a list of `verdict.Excuse`."""
    found = []
    for one in happened:
        if one.begun is None or one.fault.kind in ("stop", "slow"):
            continue
        task = None if one.fault.kind in ("hang", "all") else one.fault.task
        over = one.begun if one.ended is None else one.ended
        until = over + _AFTER_S.get(one.fault.kind, _SOON_S)
        found.append(verdict.Excuse(one.begun - 1, until, task))
    return found


def preemption_problems(job, happened, groups):
    """A task that is told to leave, while all others run, ends with the status that it should."""
    problems = []
    alone = {id(group[0]) for group in groups if len(group) == 1}
    for one in happened:
        if one.fault.kind != "preempt" or one.begun is None or id(one.fault) not in alone:
            continue
        wanted = TOLD if one.fault.task.startswith("ps/") else LEFT
        found = [
            event.status
            for event in job.record.events
            if event.kind == "end" and event.task == one.fault.task and event.at >= one.begun
        ]
        if found[:1] not in ([wanted], [0]):  # It may have completed just then.
            problems.append(
                f"{one.fault.task} was told to leave at {one.begun:.1f} s, and ended with status "
                f"{found[0] if found else None} instead of {wanted}"
            )
    return problems


def common_problems(disturbed, groups):
    """Returns the problems of a job of either kind."""
    job, happened = disturbed.job, disturbed.happened
    events, is_sync = list(job.record.events), job.is_sync
    causes = _causes(job)
    problems = [] if disturbed.has_ended else ["the job did not end by itself in time"]
    if all(one.begun is None for one in happened):
        problems.append("no fault happened to the job")
    problems += [
        f"{one.fault}: {one.facts['skipped']}" for one in happened if "failed" in one.facts
    ]
    stalls = verdict.stalls(events, STALLED, job.stall_secs)
    problems += verdict.end_problems(events, excuses(happened), stalls)
    problems += preemption_problems(job, happened, groups)
    problems += verdict.restore_problems(events, causes, damaged(happened), is_sync)
    return problems + verdict.told_problems(events, damaged(happened), is_sync)


def connections_lost(job):
    """Returns a sentence for each time that the chief restored though no task was lost."""
    return [
        f"{job.name}: at {restore.at:.1f} s: {restore.error}"
        for restore in verdict.unexplained(list(job.record.events), _causes(job))
        if restore.error
    ]


def stalled(job):
    """Returns a sentence for each task that stood still until it was ended."""
    return [
        f"{job.name}: {stall.task} from {stall.begin:.1f} to {stall.end:.1f} s"
        for stall in verdict.stalls(list(job.record.events), STALLED, job.stall_secs)
    ]


def _causes(job):
    """Returns the names of the tasks whose loss makes the chief restore."""
    names = job.cluster.names()
    return names if job.is_sync else [n for n in names if n == CHIEF or n.startswith("ps/")]


def damaged(happened):
    """Returns the steps of checkpoints that faults damaged, a set."""
    return {one.facts["damaged"] for one in happened if "damaged" in one.facts}


def asynchronous_problems(disturbed, groups, steps, saved):
    """Returns all problems of an asynchronous job of so many steps; `saved` has its values."""
    job, events = disturbed.job, list(disturbed.job.record.events)
    trainers, counted = job.cluster.trainers(), int(saved["global_step"])
    problems = common_problems(disturbed, groups)
    problems += verdict.drop_problems(events, trainers, damaged(disturbed.happened))
    problems += verdict.count_problems(events, trainers, counted)
    # At the end each task makes a step that is under way, and one more if it read the global step
    # before the others' last updates.
    if not steps <= counted <= steps + 2 * len(trainers):
        problems.append(f"the global step is {counted} at the end of {steps} steps")
    return problems


def synchronous_problems(disturbed, groups, expected, tolerance):
    """Returns all problems of a synchronous job, and the largest difference of its losses.

    Args:
        disturbed: The `Disturbed`.
        groups: Its part of the plan.
        expected: The `Uninterrupted`.
        tolerance: Largest difference of losses, relative to the largest loss.
    """
    events, trainers = list(disturbed.job.record.events), disturbed.job.cluster.trainers()
    problems = common_problems(disturbed, groups)
    problems += verdict.step_problems(events, trainers, expected.steps)
    # If these are wrong, too, the difference says nothing about faults.
    others = verdict.step_problems(expected.events, trainers, expected.steps)
    problems += [f"without faults: {problem}" for problem in others]
    off, largest = verdict.loss_problems(events, losses(expected.events), tolerance)
    return problems + off, largest


def weight_problems(saved, expected, tolerance):
    """Returns the problems of the weights at the end, and their largest difference.

    Args:
        saved: Values of the last checkpoint, by name.
        expected: Those of the uninterrupted job.
        tolerance: Largest difference, relative to the largest value of each variable.
    """
    from clusters import cluster_runs  # Imports TensorFlow.

    if {*saved} != {*expected}:
        other = sorted({*saved} ^ {*expected})
        return [f"weights are other ones: only one job saved {other}"], float("inf")
    broken = sorted(name for name, value in saved.items() if not np.isfinite(value).all())
    if broken:
        return [f"weights are not finite: {broken}"], float("inf")
    largest = float(cluster_runs.deviation(saved, expected))
    if largest <= tolerance:
        return [], largest
    return [f"weights differ by {largest:g}, relative to the largest of each variable"], largest
