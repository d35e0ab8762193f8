"""The cost that a search aims at: which networks have it, and how to draw such networks.

A search without controller evaluates networks that cost about as much as they should, as Guo et al.
do ("Single Path One-Shot Neural Architecture Search with Uniform Sampling", ECCV 2020). Weights
that are trained for networks of other costs would rank them badly; so training draws networks that
cost the target on average.
"""

from typing import Any, List, Mapping, Sequence

import numpy as np

from examples.nas_search.costs import network_batch
from examples.nas_search.search import network_rewards
from examples.nas_search.search.search_costs import SearchCost
from examples.nas_search.spaces import search_spaces

_DRAWS = 1_000  # Networks by which mean costs are estimated.
_STEPS = 50  # Towards the target, at most.
_CLOSE = 0.02  # Share of the target that the mean cost may be away from it.
_FASTEST = 0.3  # Share by which a step changes the mean cost, at most.


class Aim:
    """The cost that networks should have.

    Args:
        costs: The K costs of a search. Without any, every network costs what it should.
        params: Settings. Those used are `ssd` and `cost_window`, the share of a target that a cost
            may be away from it; without it, none.
    """

    def __init__(self, costs: Sequence[SearchCost], params: Mapping[str, Any]) -> None:
        self._costs = costs
        self._ssd = params["ssd"]
        self._window = params.get("cost_window", 0.0)
        self._targets = np.array([cost.target for cost in costs], np.float64)

    def misses(self, networks: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns how far networks are beyond the window, as a share of the target.

        Args:
            networks: Int [n, C], n >= 1.

        Returns:
            Float64 [n]: for each network that of the cost that is farthest from its target, 0 for
            all that cost what they should.
        """
        if not len(self._costs):
            return np.zeros(len(networks))
        away = np.abs(self._ratios(networks) - 1).max(axis=0)
        return np.where(away <= self._window, 0.0, away)

    def logits(self) -> List[np.ndarray]:
        """Returns logits of choices under which networks cost the target on average.

        All choices are independent. From uniform ones on, the probability of an option is changed
        in proportion to the mean cost of the networks that have it, so that little else changes.
        If no such choices cost the target, those are returned whose mean cost is closest.

        Returns:
            For each choice, float32 [options].
        """
        space = search_spaces.get_search_space_spec(self._ssd)
        logits = [np.zeros(size) for size in network_batch.option_counts(space)]
        if not len(self._costs):
            return [row.astype(np.float32) for row in logits]
        # The same numbers in each step, so that steps are compared on the same networks.
        uniform = np.random.RandomState(0).rand(len(logits), _DRAWS)
        closest, least = logits, np.inf
        for _ in range(_STEPS):
            drawn = [_drawn(row, numbers) for row, numbers in zip(logits, uniform)]
            ratios = self._ratios(np.stack(drawn, axis=1)).mean(axis=0)
            mean = ratios.mean()
            if abs(mean - 1) < least:
                closest, least = logits, abs(mean - 1)
            differences = [
                _mean_by_option(options, ratios, len(row)) - mean
                for options, row in zip(drawn, logits)
            ]
            # The mean changes by so much if logits change by their differences.
            slope = sum(
                np.sum(_softmax(row) * difference**2)
                for row, difference in zip(logits, differences)
            )
            if least <= _CLOSE or not slope:
                break
            change = np.clip(1 - mean, -_FASTEST * mean, _FASTEST * mean)
            logits = [
                row + change / slope * difference for row, difference in zip(logits, differences)
            ]
        return [row.astype(np.float32) for row in closest]

    def _ratios(self, networks: Sequence[Sequence[int]]) -> np.ndarray:
        """Returns costs as shares of their targets, float64 [K, n]."""
        estimates = network_rewards.estimate(self._costs, self._ssd, networks)
        return estimates / self._targets[:, None]


def _softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def _drawn(logits: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Returns an option for each of the numbers in [0, 1), int [n]."""
    ends = np.cumsum(_softmax(logits))[:-1]
    return np.searchsorted(ends, uniform, side="right")


def _mean_by_option(options: np.ndarray, ratios: np.ndarray, size: int) -> np.ndarray:
    """Returns the mean of the ratios of each option, that of all for one that was not drawn."""
    counts = np.bincount(options, minlength=size)
    sums = np.bincount(options, ratios, minlength=size)
    return np.where(counts > 0, sums / np.maximum(counts, 1), ratios.mean())
