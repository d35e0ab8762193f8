"""Draws random networks whose cost lies in a window.

Networks are drawn as an untrained controller would, every alternative of a choice with the same
probability, until enough of them cost what they should. An optional layer is thus skipped in half
of all networks.
"""

from __future__ import annotations

from typing import Any, Iterator, TextIO

import numpy as np

from examples.nas_search import mobile_cost_model
from examples.nas_search.costs import cost_features, network_batch
from examples.nas_search.costs.cost_model_io import CostModel
from examples.nas_search.spaces import search_spaces
from examples.runs.errors import UserError

MAX_TRIES = 100_000
_BATCH = 1_000  # tries at a time


def sample_networks(
    ssd: str,
    min_cost: float,
    max_cost: float,
    num_samples: int,
    *,
    seed: int | None = None,
    max_tries: int = MAX_TRIES,
    progress: TextIO | None = None,
    cost_model: CostModel | None = None,
) -> list[dict[str, Any]]:
    """Draws random networks of a search space until enough of them cost what they should.

    Args:
        ssd: Name of the space; of one in a file, its identity, see `space_files.py`.
        min_cost: Least cost, as the cost model estimates it, in its unit.
        max_cost: Largest cost.
        num_samples: How many networks, >= 1. The same one may be drawn twice.
        seed: Int on which the draws depend, or None for others in each call.
        max_tries: After how many networks to give up.
        progress: Text stream that is told how it goes, or None.
        cost_model: A `CostModel` of the space. None: of multiply-adds, on the images and classes
            that the space is made for, ImageNet's if it does not say.

    Returns:
        List of dicts: `indices`, separated by colons, and `cost`, a float in the unit of the
        window.

    Raises:
        UserError: If there is no such space, a number is out of range, or too few of `max_tries`
            networks cost what they should.
    """
    if num_samples < 1:
        raise UserError(f"`num_samples` must be at least 1, but is {num_samples}.")
    if not min_cost <= max_cost:
        raise UserError(
            f"`max_cost` must not be less than `min_cost`, {min_cost:.6g}, but is {max_cost:.6g}. "
            "Swap or change them."
        )
    found: list[dict[str, Any]] = []
    costs: list[float] = []
    for networks in _draws(ssd, cost_model, seed, max_tries):
        costs += [network["cost"] for network in networks]
        inside = [network for network in networks if min_cost <= network["cost"] <= max_cost]
        found += inside[: num_samples - len(found)]
        if progress is not None:
            print(f"{len(costs):,} tries: {len(found)} of {num_samples} found", file=progress)
        if len(found) == num_samples:
            break
    if len(found) < num_samples:
        unit = (cost_model or mobile_cost_model.default_model(ssd)).unit
        low, middle, high = np.quantile(costs, [0, 0.5, 1])
        raise UserError(
            f"Only {len(found)} of {len(costs):,} random networks of {ssd} cost between "
            f"{min_cost:.6g} and {max_cost:.6g} {unit}, but {num_samples} are "
            f"wanted. They cost {low:.4g} to {high:.4g}, half of them less than {middle:.4g}. Move "
            "or widen the window (`--min_cost`, `--max_cost`), or allow more `--max_tries`."
        )
    return [{name: network[name] for name in ("indices", "cost")} for network in found]


def distinct_networks(
    ssd: str,
    target: float,
    window: float,
    number: int,
    seed: int = 0,
    cost_model: CostModel | None = None,
) -> list[str]:
    """Draws different random networks that cost about as much as a target.

    Choices for a layer that is then skipped make no difference to a network: those that differ in
    nothing else are one.

    Args:
        ssd: Name of the space.
        target: Cost in the unit of the cost model.
        window: Share of the target that the cost may be away.
        number: How many networks. More of them begin with the same ones.
        seed: Number on which the draws depend.
        cost_model: As of `sample_networks`.

    Returns:
        List of the indices of each, separated by colons.

    Raises:
        UserError: If there is no such space, or too few networks cost about the target.
    """
    low, high = (1 - window) * target, (1 + window) * target
    distinct: dict[tuple[int, ...], str] = {}
    for networks in _draws(ssd, cost_model, seed, MAX_TRIES):
        for network in networks:
            if low <= network["cost"] <= high:
                distinct.setdefault(network["features"], network["indices"])
            if len(distinct) == number:
                return list(distinct.values())
    unit = (cost_model or mobile_cost_model.default_model(ssd)).unit
    raise UserError(
        f"--num_random must be as many different networks as there are about the target, but is "
        f"{number}, and {MAX_TRIES:,} random networks of {ssd} have {len(distinct)} that cost "
        f"{low:.6g} to {high:.6g} {unit}. Pass fewer, or a wider --window."
    )


def _draws(
    ssd: str, cost_model: CostModel | None, seed: int | None, max_tries: int
) -> Iterator[list[dict[str, Any]]]:
    """Yields lists of random networks: dicts of `indices`, `cost` and `features`, a tuple."""
    try:
        spec = search_spaces.get_search_space_spec(ssd)
    except ValueError as error:
        raise UserError(str(error)) from error
    model = cost_model or mobile_cost_model.default_model(ssd)
    random = np.random.RandomState(seed)
    for start in range(0, max_tries, _BATCH):
        count = min(_BATCH, max_tries - start)
        index_lists = network_batch.random_index_lists(spec, count, random)
        positions = cost_features.feature_positions(spec, index_lists)[1]
        yield [
            {"indices": ":".join(map(str, indices)), "cost": float(cost), "features": tuple(row)}
            for indices, cost, row in zip(index_lists, model.estimate(positions), positions)
        ]
