"""The smallest and the largest cost that networks of a space have, by a cost model.

Spaces are too large to look at every network. From the cheapest, or the most expensive, of many
random networks, one choice after another is changed as long as that makes it cheaper, or more
expensive. For multiply-adds and weights, one option of a choice is the cheapest whatever else
is chosen, so that this leads to the end of the range; for a measured cost, it comes close.
"""

from __future__ import annotations

import numpy as np

from examples.nas_search.basic_specs import ConvTowerSpec
from examples.nas_search.costs import cost_features, network_batch
from examples.nas_search.costs.cost_model_io import CostModel
from examples.nas_search.spaces import search_spaces

_DRAWS = 2_000


def cost_range(model: CostModel) -> tuple[float, float]:
    """Returns the smallest and the largest cost of the space of a model, in the model's unit."""
    spec = search_spaces.get_search_space_spec(model.ssd)
    drawn = network_batch.random_index_lists(spec, _DRAWS, np.random.RandomState(0))
    sizes = network_batch.option_counts(spec)
    least, largest = (_extreme(spec, model, drawn, sizes, sign) for sign in (1, -1))
    return least, -largest


def _extreme(
    spec: ConvTowerSpec, model: CostModel, drawn: np.ndarray, sizes: list[int], sign: int
) -> float:
    """Returns the least of `sign` times the cost, from the best of the networks drawn."""

    def costs(index_lists: np.ndarray) -> np.ndarray:
        return sign * model.estimate(cost_features.feature_positions(spec, index_lists)[1])

    best = drawn[np.argmin(costs(drawn))]
    least = costs(best[None])[0]
    while True:
        changed = _neighbours(best, sizes)
        found = costs(changed)
        # Rounding alone is no change.
        if not len(found) or found.min() >= least - 1e-9 * abs(least):
            return float(least)
        best, least = changed[np.argmin(found)], found.min()


def _neighbours(indices: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Returns the index lists that differ in one choice, int64 [n, C]."""
    changed = []
    for choice, size in enumerate(sizes):
        for option in range(size):
            if option != indices[choice]:
                changed.append(indices.copy())
                changed[-1][choice] = option
    return np.array(changed, np.int64).reshape(-1, len(sizes))
