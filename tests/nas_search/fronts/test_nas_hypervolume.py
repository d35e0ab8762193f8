"""Fronts and hypervolumes: cases computed by hand, brute force, and properties."""

import math

import numpy as np
import pytest

from examples.nas_search.fronts import hypervolume as hv
from examples.nas_search.fronts.hypervolume import Point

CORNER = Point(16.0, 0.5)


def random_points(seed, number):
    random = np.random.RandomState(seed)
    costs, accuracies = 2 ** random.uniform(-1, 5, number), random.uniform(0.4, 1, number)
    return [Point(float(cost), float(accuracy)) for cost, accuracy in zip(costs, accuracies)]


def by_darts(points, corner, darts=200_000):
    """Returns the share of a box that points dominate, times its area, by random darts."""
    random = np.random.RandomState(1)
    logs, accuracies = (
        random.uniform(-2, math.log2(corner.cost), darts),
        random.uniform(corner.accuracy, 1, darts),
    )
    hit = np.zeros(darts, bool)
    for point in points:
        hit |= (math.log2(point.cost) <= logs) & (accuracies <= point.accuracy)
    return hit.mean() * (math.log2(corner.cost) + 2) * (1 - corner.accuracy)


@pytest.mark.parametrize(
    ("points", "area"),
    [
        ([], 0),
        ([(4, 0.9)], 2 * 0.4),  # two doublings to 16
        ([(16, 0.9)], 0),  # as expensive as the reference
        ([(32, 0.9), (4, 0.5)], 0),  # more expensive; not more accurate
        ([(4, 0.9), (4, 0.9)], 2 * 0.4),
        ([(4, 0.9), (4, 0.8), (8, 0.7)], 2 * 0.4),  # dominated ones
        ([(8, 0.9), (2, 0.6)], 2 * 0.1 + 1 * 0.4),
        ([(1, 0.6), (2, 0.7), (8, 1.0)], 1 * 0.1 + 2 * 0.2 + 1 * 0.5),
    ],
)
def test_areas_by_hand(points, area):
    assert hv.hypervolume([Point(*each) for each in points], CORNER) == pytest.approx(area)


@pytest.mark.parametrize("seed", range(5))
def test_areas_by_brute_force(seed):
    points = random_points(seed, 1 + 3 * seed)
    area = hv.hypervolume(points, CORNER)
    # Its standard deviation is 0.5 / √200,000 of a box of 3.
    assert by_darts(points, CORNER) == pytest.approx(area, abs=0.015)


def test_the_unit_of_the_cost_makes_no_difference():
    points = random_points(0, 9)
    thousands = [Point(1000 * each.cost, each.accuracy) for each in points]
    corner = Point(1000 * CORNER.cost, CORNER.accuracy)
    assert hv.hypervolume(thousands, corner) == pytest.approx(hv.hypervolume(points, CORNER))


@pytest.mark.parametrize("seed", range(5))
def test_the_front_are_those_that_no_other_one_dominates(seed):
    points = random_points(seed, 12)
    wanted = {
        each
        for each in points
        if not any(
            other.cost <= each.cost and other.accuracy >= each.accuracy and other != each
            for other in points
        )
    }
    found = hv.front([*points, *points])
    assert found == sorted(wanted)
    assert hv.hypervolume(found, CORNER) == hv.hypervolume(points, CORNER)


def test_a_front_has_the_better_one_of_two_equal_costs_or_accuracies():
    points = [Point(1, 0.7), Point(1, 0.8), Point(2, 0.8), Point(3, 0.9), Point(3, 0.85)]
    assert hv.front(points) == [Point(1, 0.8), Point(3, 0.9)]


def test_mean_steps_by_hand():
    sets = [[Point(2, 0.7), Point(8, 0.9)], [Point(4, 0.6), Point(99, 1.0)]]
    steps = hv.mean_steps(sets, CORNER)
    # The second set has nothing up to 4, and its expensive one is beyond the reference point.
    wanted = [(2, 0.6), (4, 0.65), (8, 0.75)]
    np.testing.assert_allclose(steps, wanted)


@pytest.mark.parametrize("number", [1, 4])
def test_the_area_of_mean_steps_is_the_mean_of_areas(number):
    sets = [random_points(seed, 5) for seed in range(number)]
    areas = [hv.hypervolume(points, CORNER) for points in sets]
    steps = hv.mean_steps(sets, CORNER)
    assert hv.hypervolume(steps, CORNER) == pytest.approx(np.mean(areas))
