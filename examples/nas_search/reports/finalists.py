"""The networks that a search puts first; training them alone tells the best.

Shared weights tell good networks from bad ones, but hardly the good ones from each other. So a few
of the first are trained alone, and the one with the best validation accuracy is taken.
"""

from typing import Dict, List, Sequence, Tuple

import numpy as np

from examples.nas_search.costs import cost_features
from examples.nas_search.reports import network_distribution
from examples.nas_search.reports.search_analysis import Analysis
from examples.nas_search.spaces import search_spaces

_DRAWS = 2_000  # Of a controller.


def finalists(analysis: Analysis, number: int) -> List[List[int]]:
    """Returns the networks that a search puts first, all `different`.

    Args:
        analysis: Of the search.
        number: How many networks, at least 1.

    Returns:
        List of the indices of each, C ints. The first is the network that the search found. Those
        after it are, with a controller, the most probable ones of 2,000 that it draws; else those
        with the largest rewards. There are fewer if the search has evaluated, or its controller
        draws, fewer different ones.
    """
    if analysis.evaluations is None:
        networks = _probable(analysis)
    else:
        best_first = sorted(analysis.evaluations, key=lambda evaluation: -evaluation.reward)
        networks = [list(evaluation.indices) for evaluation in best_first]
    return different(analysis.ssd, networks)[:number]


def different(ssd: str, networks: Sequence[Sequence[int]]) -> List[List[int]]:
    """Returns networks without those that are one with a network before them.

    Choices for a layer that is then skipped make no difference to a network: those that differ in
    nothing else are one.

    Args:
        ssd: Name of the space.
        networks: Int [n, C], n >= 1.
    """
    space = search_spaces.get_search_space_spec(ssd)
    positions = cost_features.feature_positions(space, np.array(networks))[1]
    found: Dict[Tuple[int, ...], List[int]] = {}
    for row, network in zip(positions.tolist(), networks):
        found.setdefault(tuple(row), list(network))
    return list(found.values())


def _probable(analysis: Analysis) -> List[List[int]]:
    """Returns the network found and others that the controller draws, the most probable first."""
    rows = analysis.probabilities[analysis.global_step]
    space = search_spaces.get_search_space_spec(analysis.ssd)
    oneofs = network_distribution.open_nodes(space)
    random = np.random.RandomState(0)  # The same ones each time, so that a rerun resumes.
    drawn = np.stack([random.choice(len(row), _DRAWS, p=row) for row in rows], axis=1)
    once = [list(map(int, network)) for network in np.unique(drawn, axis=0)]
    once.sort(key=lambda n: -network_distribution.log_probability(oneofs, rows, n))
    return [analysis.indices, *once]
