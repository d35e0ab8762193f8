"""Fronts of accuracy over cost, and their hypervolume.

A network *dominates* another one if it costs no more, is no less accurate, and is better in one of
the two. The *front* of a set are the networks that none of the set dominates. The *hypervolume* of
a set is the area that it dominates, up to a reference point (Zitzler and Thiele, "Multiobjective
evolutionary algorithms: a comparative case study and the strength Pareto approach", IEEE
Transactions on Evolutionary Computation 3(4), 1999).

Costs are on a logarithmic axis. Targets of searches, and the choices of spaces, are multiples of
each other: on a linear axis the most expensive networks alone would decide. Also, the area then
does not depend on the unit of the cost. It is in accuracy times doublings of the cost: networks
that are more accurate by 0.01 at all costs, over two doublings, have 0.02 more.
"""

from __future__ import annotations

import bisect
import math
from typing import NamedTuple, Sequence


class Point(NamedTuple):
    """A network, or the reference point."""

    cost: float  # > 0, in any unit
    accuracy: float  # in [0, 1]


def front(points: Sequence[Point]) -> list[Point]:
    """Returns the points that no other one dominates, without copies, the cheapest first."""
    best: list[Point] = []
    for point in sorted(points, key=lambda each: (each.cost, -each.accuracy)):
        if not best or point.accuracy > best[-1].accuracy:
            best.append(point)
    return best


def hypervolume(points: Sequence[Point], reference: Point) -> float:
    """Returns the area that points dominate.

    Args:
        points: Any number of them. Those that are not better than the reference point in both
            cost and accuracy add nothing.
        reference: The most expensive and least accurate corner.

    Returns:
        Float >= 0, in accuracy times doublings of the cost.
    """
    steps = front(_inside(points, reference))
    ends = [*(step.cost for step in steps[1:]), reference.cost]
    return sum(
        math.log2(end / step.cost) * (step.accuracy - reference.accuracy)
        for step, end in zip(steps, ends)
    )


def mean_steps(sets: Sequence[Sequence[Point]], reference: Point) -> list[Point]:
    """Returns the mean over sets of the best accuracy up to each cost.

    Its area above the reference accuracy is the mean of the hypervolumes.

    Args:
        sets: One or more sets of points. Where a set has nothing yet, its accuracy is the
            reference's.
        reference: As of `hypervolume`.

    Returns:
        Where the mean rises, and what it is from there on, the cheapest first.
    """
    fronts = [front(_inside(points, reference)) for points in sets]
    costs = sorted({step.cost for steps in fronts for step in steps})
    totals = [0.0] * len(costs)
    for steps in fronts:
        starts = [step.cost for step in steps]
        for place, cost in enumerate(costs):
            reached = bisect.bisect_right(starts, cost)
            totals[place] += steps[reached - 1].accuracy if reached else reference.accuracy
    return [Point(cost, total / len(sets)) for cost, total in zip(costs, totals)]


def _inside(points: Sequence[Point], reference: Point) -> list[Point]:
    return [
        point
        for point in points
        if point.cost < reference.cost and point.accuracy > reference.accuracy
    ]
