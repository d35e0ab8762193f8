"""Runs a front: the searches, then trainings of what they found and of random networks."""

from __future__ import annotations

import statistics
from typing import Any, Callable, NamedTuple

from examples.nas_search import mobile_cost_model
from examples.nas_search.costs import network_cost
from examples.nas_search.fronts import alone
from examples.nas_search.fronts.front_settings import SETTINGS, Plan, Search
from examples.nas_search.fronts.trained import FOUND, RANDOM, Trained, Training
from examples.nas_search.reports import search_analysis
from examples.nas_search.search import search_loop, search_settings
from examples.nas_search.spaces import search_spaces
from examples.runs import settings_file

Say = Callable[[str], None]


class Results(NamedTuple):
    """All networks of a front, trained."""

    networks: tuple[Trained, ...]
    search_seconds: float  # of the processor, mean over searches


class _Network(NamedTuple):
    """A network that is to be trained; as `Trained`."""

    kind: str
    target: float
    number: int
    indices: str


def run(plan: Plan, say: Say) -> Results:
    """Runs a front to its end, or goes on with it.

    Args:
        plan: By `front_settings.resolve`.
        say: Function of a line of text, by which it tells how it goes.

    Returns:
        Its `Results`: of each target in turn those found, then the random ones.

    Raises:
        UserError: If a search or a training was begun with other settings, or its loss is no longer
            a number.
        KeyboardInterrupt: If it was stopped; it is saved.
    """
    settings_file.write_json(plan.settings, plan.settings["out"], SETTINGS)
    found, seconds = [], []
    for place, search in enumerate(plan.searches, start=1):
        say(f"Search {place} of {len(plan.searches)}: {_aim(plan, search.target)}.")
        network, taken = _searched(search)
        say(f"    Found {network.indices}, {_cost(plan, network.indices):.4g} {plan.model.unit}.")
        found.append(network)
        seconds.append(taken)
    networks = _all_networks(plan, found)
    trained = []
    for place, each in enumerate(networks, start=1):
        say(
            f"Network {place} of {len(networks)}: {each.kind}, {_aim(plan, each.target)}, "
            f"{each.indices}."
        )
        trained.append(_trained(plan, each))
        say(f"    Accuracy on test images: {trained[-1].test:.2%}.")
    return Results(tuple(trained), statistics.mean(seconds))


def _aim(plan: Plan, target: float) -> str:
    return f"target {target:g} {plan.model.unit}"


def _searched(search: Search) -> tuple[_Network, float]:
    """Searches, or looks up what was found; returns it, and the seconds that it took."""
    search_settings.check_same(search.params)  # also if it is at its end
    seconds = alone.finish(search_loop.run, search.params)
    indices = search_analysis.analyze(search.params["checkpoint_dir"]).indices
    text = ":".join(map(str, indices))
    return _Network(FOUND, search.target, search.number, text), seconds


def _all_networks(plan: Plan, found: list[_Network]) -> list[_Network]:
    networks = []
    for target, drawn in plan.random.items():
        networks += [each for each in found if each.target == target]
        networks += [
            _Network(RANDOM, target, number, indices) for number, indices in enumerate(drawn)
        ]
    return networks


def _trained(plan: Plan, network: _Network) -> Trained:
    """Trains a network alone; or looks it up if it was trained before."""
    settings = plan.settings
    runs = alone.train(
        plan.out / "alone",
        network.indices,
        settings["num_trainings"],
        settings["seed"],
        **plan.training,
    )
    params = plan.searches[0].params
    cost = network_cost.network_cost(
        search_spaces.get_search_space_spec(plan.model.ssd),
        params["image_shape"],
        params["num_classes"],
        _numbers(network.indices),
    )
    trainings = tuple(
        _training(settings["seed"] + number, figures) for number, figures in enumerate(runs)
    )
    estimate = _cost(plan, network.indices)
    return Trained(*network, estimate, cost.madds, cost.params, trainings)


def _training(seed: int, figures: dict[str, Any]) -> Training:
    return Training(seed, *(figures[name] for name in ("validation", "test", "seconds")))


def _cost(plan: Plan, indices: str) -> float:
    return mobile_cost_model.estimate_cost(_numbers(indices), plan.model.ssd, plan.model)


def _numbers(indices: str) -> list[int]:
    return [int(index) for index in indices.split(":")]
