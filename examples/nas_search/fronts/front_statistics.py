"""Compares the hypervolume of networks that searches found with that of random networks.

A *set* has for each target as many networks as there were searches. Networks found are one set.
Random ones make many sets:

    random              networks of each target are drawn, all different
    random_same_time    in place of each network, k of the target are drawn, and the one with the
                        best validation accuracy in one of its trainings is taken; k is the number
                        of networks that can be trained once in the time of a search and a training

A *bootstrap* set is drawn in the same way from the same networks, found ones too, but with
replacement; and a network's accuracy in it is the mean of as many of its trainings as it has, drawn
with replacement. Test images are the same in all of them: intervals do not tell how accuracies
would be on others. The reference point is the same, too.
"""

from __future__ import annotations

import statistics
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from examples.nas_search.fronts.hypervolume import Point, hypervolume, mean_steps
from examples.nas_search.fronts.trained import FOUND, RANDOM, Trained

DRAWS = 1_000  # sets of each kind
SAME_TIME = f"{RANDOM}_same_time"
_INTERVAL = (2.5, 97.5)  # per cent
_ROUNDING = 1e-12  # Areas differ by this if their parts are added in another order.
Group = Sequence[Trained]  # networks of a kind and a target
Draw = Callable[[Group, bool], Group]  # whether with replacement


class Comparison(NamedTuple):
    """Figures of kinds of sets: `FOUND`, `RANDOM` and `SAME_TIME`."""

    reference: Point
    affordable: int  # k above
    steps: Mapping[str, list[Point]]  # mean best accuracy up to a cost, by kind
    figures: dict[str, Any]  # ready for JSON, see `compare`


def reference_point(networks: Sequence[Trained], accuracy: float | None = None) -> Point:
    """Returns the reference point of hypervolumes.

    Its cost depends on the targets alone: it is where another target would be, after the largest
    one. So the network of each target counts over about as long a part of the axis.

    Args:
        networks: All that are compared, of two different targets or more.
        accuracy: Its accuracy. None: the least of all networks.
    """
    targets = sorted({network.target for network in networks})
    ratio = (targets[-1] / targets[0]) ** (1 / (len(targets) - 1))
    least = min(network.test for network in networks)
    return Point(targets[-1] * ratio, least if accuracy is None else accuracy)


def affordable(networks: Sequence[Trained], search_seconds: float) -> int:
    """Returns how many random networks can be trained in the time of a search and a training.

    Args:
        networks: All that are compared.
        search_seconds: How long a search took, of the processor, mean.
    """
    random = [network for network in networks if network.kind == RANDOM]
    seconds = statistics.mean(each.seconds for network in random for each in network.trainings)
    return max(1, round((search_seconds + seconds) / seconds)) if seconds else 1


def compare(
    networks: Sequence[Trained], reference: Point, number: int, draws: int = DRAWS
) -> Comparison:
    """Compares the networks found with random ones.

    Args:
        networks: All of them; of each target as many found ones, and as many or more random ones.
        reference: The reference point.
        number: k, see above; at most as many as there are random networks of a target.
        draws: How many sets are drawn of each kind.

    Returns:
        A `Comparison`. Its figures are for each kind `hypervolume`, the mean over sets; and
        `interval`, of bootstrap sets, from the 2.5th to the 97.5th percentile, None if all are
        equal, as those of a single search and training for each target are. `FOUND` has also
        `better_than_random` and `better_than_random_same_time`: the share of sets of random
        networks that have a smaller hypervolume, those that are equal counting half.
    """
    random = np.random.RandomState(0)
    found, others = (_groups(networks, kind) for kind in (FOUND, RANDOM))
    number = min(number, len(others[0]))
    several, best = _draws(len(found[0]), number, random)
    ways = {FOUND: (found, several), RANDOM: (others, several), SAME_TIME: (others, best)}
    sets = {
        # There is one set of all networks found.
        kind: [_points(groups, draw) for _ in range(1 if kind == FOUND else draws)]
        for kind, (groups, draw) in ways.items()
    }
    areas = {kind: [hypervolume(each, reference) for each in sets[kind]] for kind in ways}
    figures: dict[str, Any] = {
        kind: {
            "hypervolume": float(np.mean(areas[kind])),
            "interval": _interval(groups, draw, reference, draws),
        }
        for kind, (groups, draw) in ways.items()
    }
    for kind in (RANDOM, SAME_TIME):
        figures[FOUND][f"better_than_{kind}"] = _share_below(areas[FOUND][0], areas[kind])
    steps = {kind: mean_steps(sets[kind], reference) for kind in ways}
    return Comparison(reference, number, steps, figures)


def _draws(size: int, number: int, random: np.random.RandomState) -> tuple[Draw, Draw]:
    """Returns two functions that draw the networks of a set for a target, see above.

    Args:
        size: How many networks a set has for a target.
        number: k, the networks of which the second one takes the best.
        random: Where they draw from.
    """

    def several(group: Group, replace: bool) -> Group:
        return resampled(_drawn(group, size, random, replace), replace)

    def best(group: Group, replace: bool) -> Group:
        chosen = [_best(_drawn(group, number, random, replace), random) for _ in range(size)]
        return resampled(chosen, replace)

    def resampled(group: Group, replace: bool) -> Group:
        return [_resampled(each, random) for each in group] if replace else group

    return several, best


def _groups(networks: Sequence[Trained], kind: str) -> list[Group]:
    """Returns the networks of a kind, by target."""
    targets = sorted({network.target for network in networks})
    return [
        [each for each in networks if (each.kind, each.target) == (kind, target)]
        for target in targets
    ]


def _drawn(group: Group, number: int, random: np.random.RandomState, replace: bool) -> Group:
    count = len(group)
    places = random.randint(count, size=number) if replace else random.permutation(count)[:number]
    return [group[place] for place in places]


def _best(group: Group, random: np.random.RandomState) -> Trained:
    """Returns the network with the best validation accuracy in one of its trainings."""
    return max(
        group, key=lambda each: each.trainings[random.randint(len(each.trainings))].validation
    )


def _resampled(network: Trained, random: np.random.RandomState) -> Trained:
    """Returns a network with as many of its trainings, drawn with replacement."""
    if len(network.trainings) == 1:
        return network
    places = random.randint(len(network.trainings), size=len(network.trainings))
    return network._replace(trainings=tuple(network.trainings[place] for place in places))


def _points(groups: Sequence[Group], draw: Draw, replace: bool = False) -> list[Point]:
    return [network.point for group in groups for network in draw(group, replace)]


def _interval(
    groups: Sequence[Group], draw: Draw, reference: Point, draws: int
) -> list[float] | None:
    """Returns the ends of the interval of bootstrap sets, None if they are all equal."""
    areas = [hypervolume(_points(groups, draw, True), reference) for _ in range(draws)]
    if np.ptp(areas) < _ROUNDING:
        return None
    return [float(end) for end in np.percentile(areas, _INTERVAL)]


def _share_below(value: float, others: Sequence[float]) -> float:
    differences = value - np.array(others)
    is_equal = np.abs(differences) < _ROUNDING
    return float(np.mean(np.where(is_equal, 0.5, differences > 0)))
