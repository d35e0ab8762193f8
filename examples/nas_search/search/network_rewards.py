"""Costs and rewards of many networks at once, as a search computes them of one that it draws."""

from typing import Any, List, Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search import search_space_utils
from examples.nas_search.costs import cost_features
from examples.nas_search.search import search_costs
from examples.nas_search.search.search_costs import SearchCost
from examples.nas_search.spaces import search_spaces


def costs_of_search(params: Mapping[str, Any], keep: bool = False) -> List[SearchCost]:
    """Returns the costs of a search, none if cost does not count in it; see `search_costs.load`."""
    return search_costs.load(params, keep) if params.get("enable_cost_model", True) else []


def estimate(
    costs: Sequence[SearchCost], ssd: str, networks: Sequence[Sequence[int]]
) -> np.ndarray:
    """Returns what networks cost, as the models of a search estimate it.

    Args:
        costs: The K costs of a search.
        ssd: Name of the space.
        networks: Int [n, C], the option of each choice of the space, n >= 1.

    Returns:
        Float64 [K, n], in the units of the models.

    Raises:
        ValueError: If a network is of another space.
    """
    space = search_spaces.get_search_space_spec(ssd)
    _, positions = cost_features.feature_positions(space, np.array(networks))
    estimates = [cost.model.estimate(positions) for cost in costs]
    return np.reshape(np.array(estimates, np.float64), [len(costs), len(networks)])


def rewards(
    accuracies: np.ndarray,
    estimates: np.ndarray,
    costs: Sequence[SearchCost],
    params: Mapping[str, Any],
) -> np.ndarray:
    """Returns the rewards of networks, of which a search looks for the largest.

    Args:
        accuracies: Float64 [n].
        estimates: Float64 [K, n], see `estimate`.
        costs: The K costs of a search. Without any, the accuracies are the rewards.
        params: Settings. Those used are `rl_reward_function` and `rl_cost_model_exponent`.

    Returns:
        Float64 [n].
    """
    if not costs:
        return np.array(accuracies, np.float64)
    with tf.Graph().as_default(), tf.Session() as session:
        parts = search_space_utils.reward_for_cost_models(
            tf.constant(accuracies, tf.float64),
            rl_reward_function=params["rl_reward_function"],
            estimated_costs=[tf.constant(row, tf.float64) for row in estimates],
            rl_cost_model_targets=[cost.target for cost in costs],
            rl_cost_model_exponent=params["rl_cost_model_exponent"],
            cost_model_weights=[cost.weight for cost in costs],
        )
        return session.run(parts["rl_reward"])
