"""All strategies by name, and their settings.

A strategy of your own is an entry of `STRATEGIES`, and a flag for each of its settings.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from examples.nas_search.search.search_costs import SearchCost
from examples.nas_search.search.strategies import proposals
from examples.nas_search.search.strategies.aims import Aim
from examples.runs.flags import SettingsError


class Strategy(NamedTuple):
    """A way to search."""

    settings: Mapping[str, Any]  # defaults by name; no others may be given
    propose: Optional[Callable[..., proposals.Network]] = None  # None: it has a controller


_TWO_PARTS = {"supernet_steps_fraction": 0.75, "cost_window": 0.05}
STRATEGIES: Dict[str, Strategy] = {
    "reinforce": Strategy({}),
    "random": Strategy(_TWO_PARTS, proposals.uniform),
    "evolution": Strategy(
        {**_TWO_PARTS, "evolution_population_size": 50, "evolution_sample_size": 12},
        proposals.offspring,
    ),
}


def strategy_of(params: Mapping[str, Any]) -> Strategy:
    """Returns the strategy of a search.

    Raises:
        SettingsError: If there is none of this name.
    """
    name = params.get("strategy", "reinforce")  # Older searches do not name it.
    if not isinstance(name, str) or name not in STRATEGIES:
        raise SettingsError(
            f"`strategy` must be one of {', '.join(STRATEGIES)}, but is {name!r}. Name the "
            "directory of another search."
        )
    return STRATEGIES[name]


def has_controller(params: Mapping[str, Any]) -> bool:
    """Returns whether a controller picks the network of a search, by its settings."""
    return strategy_of(params).propose is None


def initial_logits(
    costs: Sequence[SearchCost], params: Mapping[str, Any]
) -> Optional[List[np.ndarray]]:
    """Returns the logits by which training draws networks at first; None if all are 0.

    Args:
        costs: The costs of the search.
        params: Its settings.
    """
    if has_controller(params) and not params.get("start_at_target"):
        return None
    return Aim(costs, params).logits()


def training_steps(params: Mapping[str, Any]) -> int:
    """Returns how many steps of a search train the shared weights, by its resolved settings."""
    return params.get("supernet_steps", params["max_global_step"])


def resolve(params: Dict[str, Any]) -> Dict[str, Any]:
    """Returns settings with those of the strategy alone, complete except for `supernet_steps`.

    Args:
        params: Settings of all strategies, in which those that are not given are None, and `tpu`.

    Returns:
        A dict. With a controller, nothing is added. Without one, it never learns:
        `rl_delay_steps_fraction` is 1.

    Raises:
        SettingsError: If a setting is given that the strategy has no use for, it cannot run on a
            TPU, or the sample is larger than the population.
    """
    strategy = strategy_of(params)
    names = {name for each in STRATEGIES.values() for name in each.settings}
    unused = [f"--{name}" for name in sorted(names - {*strategy.settings}) if params[name]]
    if unused:
        raise SettingsError(
            f"{', '.join(unused)} must be for the strategy of the search, but --strategy is "
            f"{params['strategy']}. Leave out one of the two."
        )
    resolved = {name: value for name, value in params.items() if name not in names}
    if strategy.propose is None:
        return resolved
    if params["tpu"]:
        raise SettingsError(
            f"--strategy {params['strategy']} must evaluate networks on towers of this host, but "
            "--tpu is given. Leave it out, or search with --strategy reinforce."
        )
    for name, default in strategy.settings.items():
        resolved[name] = default if params[name] is None else params[name]
    size = resolved.get("evolution_population_size")
    if size and resolved["evolution_sample_size"] > size:
        raise SettingsError(
            "--evolution_sample_size must be at most the --evolution_population_size, which is "
            f"{size}, but is {resolved['evolution_sample_size']}. Lower it."
        )
    return {**resolved, "rl_delay_steps_fraction": 1.0}


def supernet_steps(params: Mapping[str, Any], end: int) -> int:
    """Returns how many of all steps train the shared weights: all of them with a controller.

    Args:
        params: Settings, as `resolve` returns them.
        end: How many steps the search makes.

    Raises:
        SettingsError: If no step is left for one of the two parts.
    """
    if has_controller(params):
        return end
    steps = int(params["supernet_steps_fraction"] * end)
    if not 0 < steps < end:
        raise SettingsError(
            "Some steps must train the weights, and some evaluate networks, but "
            f"--supernet_steps_fraction {params['supernet_steps_fraction']:g} of {end} steps are "
            f"{steps}. Change it, or search longer."
        )
    return steps
