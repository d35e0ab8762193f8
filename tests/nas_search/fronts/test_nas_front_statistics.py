"""The comparison of networks found with random ones: by hand, and over all sets there are."""

import itertools

import numpy as np
import pytest

from examples.nas_search.fronts import front_statistics
from examples.nas_search.fronts.hypervolume import Point, hypervolume
from examples.nas_search.fronts.trained import Trained, Training

CORNER = Point(8.0, 0.5)


def network(kind, target, *accuracies, number=0, cost=None, seconds=1.0, validation=0.5):
    """A network whose trainings have these accuracies on test images."""
    trainings = [Training(seed, validation, each, seconds) for seed, each in enumerate(accuracies)]
    costs = (cost or target, 1000, 10)
    return Trained(kind, target, number, "0:1", *costs, tuple(trainings))


FOUND = [network("found", 2.0, 0.7), network("found", 4.0, 0.8)]
# By target, accuracy and validation accuracy.
RANDOM = [
    network("random", target, test, validation=validation)
    for target, pairs in {
        2.0: [(0.6, 0.9), (0.7, 0.8), (0.9, 0.7)],
        4.0: [(0.6, 0.3), (0.8, 0.4), (0.65, 0.5)],
    }.items()
    for test, validation in pairs
]


def area(*accuracies):
    return hypervolume([Point(2.0, accuracies[0]), Point(4.0, accuracies[1])], CORNER)


def test_the_reference_point_is_where_another_target_would_be():
    networks = [*FOUND, *RANDOM, network("random", 9.0, 0.4)]
    assert front_statistics.reference_point(networks[:-1]) == Point(8.0, 0.6)
    cost, accuracy = front_statistics.reference_point(networks)
    assert cost == pytest.approx(9 * 4.5**0.5)  # from 2 to 9 in two steps
    assert accuracy == 0.4
    assert front_statistics.reference_point(networks, 0.1).accuracy == 0.1


def test_a_search_pays_for_trainings():
    networks = [*FOUND, network("random", 2.0, 0.5, 0.5, seconds=2.0)]
    assert front_statistics.affordable(networks, 9.0) == 6  # 9 + 2 seconds, of 2 each, rounded
    assert front_statistics.affordable(networks, 0.0) == 1


def test_hypervolumes_are_those_of_all_sets():
    got = front_statistics.compare([*FOUND, *RANDOM], CORNER, number=2, draws=1000)
    assert got.figures["found"]["hypervolume"] == pytest.approx(0.2 + 0.3)
    pairs = [*itertools.product([0.6, 0.7, 0.9], [0.6, 0.8, 0.65])]
    areas = [area(*pair) for pair in pairs]
    random = got.figures["random"]
    assert random["hypervolume"] == pytest.approx(np.mean(areas), abs=0.02)
    below = np.mean([0.5 if abs(a - 0.5) < 1e-9 else a < 0.5 for a in areas])
    assert got.figures["found"]["better_than_random"] == pytest.approx(below, abs=0.05)
    # Of two that are drawn, validation chooses 0.6 before 0.7 before 0.9, and 0.65 before 0.8.
    chosen = [area(a, b) for a in [0.6, 0.6, 0.7] for b in [0.65, 0.65, 0.8]]
    assert got.figures["random_same_time"]["hypervolume"] == pytest.approx(
        np.mean(chosen), abs=0.02
    )
    assert got.figures["found"]["better_than_random_same_time"] == pytest.approx(
        np.mean([0.5 if abs(a - 0.5) < 1e-9 else a < 0.5 for a in chosen]), abs=0.03
    )
    assert got.steps["found"] == [Point(2.0, 0.7), Point(4.0, 0.8)]
    for kind in ("found", "random", "random_same_time"):
        assert hypervolume(got.steps[kind], CORNER) == pytest.approx(
            got.figures[kind]["hypervolume"]
        )


def test_the_best_of_more_than_there_are_is_the_best_of_all():
    got = front_statistics.compare([*FOUND, *RANDOM], CORNER, number=9, draws=5)
    assert got.affordable == 3
    assert got.figures["random_same_time"]["hypervolume"] == pytest.approx(area(0.6, 0.65))
    assert got.figures["random_same_time"]["interval"] is not None


def test_an_interval_needs_several_searches_or_trainings():
    got = front_statistics.compare([*FOUND, *RANDOM], CORNER, number=2, draws=200)
    assert got.figures["found"]["interval"] is None
    low, high = got.figures["random"]["interval"]
    assert low == pytest.approx(area(0.6, 0.6))
    assert high == pytest.approx(area(0.9, 0.8))


def test_an_interval_is_over_trainings():
    found = [network("found", 2.0, 0.6, 0.8), network("found", 4.0, 0.8, 0.8)]
    random = [network("random", target, 0.6, 0.6) for target in (2.0, 4.0)]
    got = front_statistics.compare([*found, *random], CORNER, number=1, draws=200)
    assert got.figures["found"]["hypervolume"] == pytest.approx(area(0.7, 0.8))
    # Both trainings are the worse one, or the better one, in a quarter of the sets each.
    expected = pytest.approx([area(0.6, 0.8), area(0.8, 0.8)])
    assert got.figures["found"]["interval"] == expected
    assert got.figures["random"]["interval"] is None


def test_sets_have_as_many_networks_as_there_were_searches():
    found = [
        network("found", target, accuracy, number=number)
        for target in (2.0, 4.0)
        for number, accuracy in enumerate([0.6, 0.8])
    ]
    random = [
        network("random", target, accuracy) for target in (2.0, 4.0) for accuracy in [0.6, 0.7, 0.8]
    ]
    got = front_statistics.compare([*found, *random], CORNER, number=1, draws=1000)
    assert got.figures["found"]["hypervolume"] == pytest.approx(area(0.8, 0.8))
    best = [max(pair) for pair in itertools.combinations([0.6, 0.7, 0.8], 2)]
    areas = [area(*pair) for pair in itertools.product(best, best)]
    assert got.figures["random"]["hypervolume"] == pytest.approx(np.mean(areas), abs=0.02)
    # Drawn with replacement, the better search is missing from both targets at times.
    assert got.figures["found"]["interval"][0] < area(0.8, 0.8)


def test_the_same_networks_are_compared_alike_each_time():
    first, second = (
        front_statistics.compare([*FOUND, *RANDOM], CORNER, number=2, draws=50) for _ in range(2)
    )
    assert first == second
