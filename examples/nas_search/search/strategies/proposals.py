"""Networks that strategies evaluate: functions of the seed, the position and the history.

So a search that was interrupted goes on exactly. A *proposal* is a function of

    position   of the network in the history, int
    history    the evaluations of all steps before, in order
    sizes      the numbers of options of the C choices of the space
    params     settings of the search
    misses     function of networks, int [n, C]; see `Aim.misses`

that returns the network, a tuple of C indices. It costs what it should; if none of the many that
are drawn does, it is the one that comes closest.
"""

from typing import Any, Callable, Mapping, Sequence, Tuple

import numpy as np

from examples.nas_search.search.strategies.history import Evaluation

Network = Tuple[int, ...]
Misses = Callable[[np.ndarray], np.ndarray]

_DRAWS, _TRIES = 256, 40  # Networks that are drawn at once, and how often.
_MUTATED = 0.1  # Share of the open choices.


def uniform(
    position: int,
    history: Sequence[Evaluation],
    sizes: Sequence[int],
    params: Mapping[str, Any],
    misses: Misses,
) -> Network:
    """Proposes a network whose every choice is uniform and independent; see the module."""
    random = _random(position, params)
    return _first(lambda: random.randint(sizes, size=(_DRAWS, len(sizes))), misses)


def offspring(
    position: int,
    history: Sequence[Evaluation],
    sizes: Sequence[int],
    params: Mapping[str, Any],
    misses: Misses,
) -> Network:
    """Proposes a mutation of a good network of late: ageing evolution; see the module.

    The first networks are uniform, until they are a population. Then, in each step, the population
    is that of the latest networks, as the oldest dies when another is born. The parent is the one
    with the best reward in a sample of the population, drawn with replacement. Each of its choices
    gets another option with a probability of 0.1, and one of them in any case; these may be choices
    that the network does not reach.

    After Real et al., "Regularized Evolution for Image Classifier Architecture Search", AAAI 2019;
    with shared weights, mutations and limits of cost after Guo et al., "Single Path One-Shot Neural
    Architecture Search with Uniform Sampling", ECCV 2020. The difference: the towers' networks of a
    step are born together.
    """
    size = params["evolution_population_size"]
    if len(history) < size or max(sizes, default=1) < 2:
        return uniform(position, history, sizes, params, misses)
    random = _random(position, params)
    population = history[-size:]
    sample = random.randint(size, size=params["evolution_sample_size"])
    parent = max((population[member] for member in sample), key=lambda member: member.reward)
    return _first(lambda: _mutated(parent.indices, np.array(sizes), random), misses)


def _first(draw: Callable[[], np.ndarray], misses: Misses) -> Network:
    """Returns the first network that misses nothing, or else the first of the closest ones."""
    closest, least = None, np.inf
    for _ in range(_TRIES):
        networks = draw()
        missed = misses(networks)
        best = int(np.argmin(missed))
        if missed[best] < least:
            closest, least = networks[best], missed[best]
        if not least:
            break
    assert closest is not None
    return tuple(map(int, closest))


def _mutated(indices: Network, sizes: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """Returns mutations of a network, int [n, C]; at a choice, all others are equally probable."""
    is_open = sizes > 1
    open_choices = np.flatnonzero(is_open)
    changes = (random.rand(_DRAWS, len(sizes)) < _MUTATED) & is_open
    changes[np.arange(_DRAWS), open_choices[random.randint(len(open_choices), size=_DRAWS)]] = True
    others = random.randint(1, np.maximum(sizes, 2), size=(_DRAWS, len(sizes)))
    return np.where(changes, (np.array(indices) + others) % sizes, indices)


def _random(position: int, params: Mapping[str, Any]) -> np.random.RandomState:
    """Returns a generator that depends on the seed of a search and a position alone."""
    return np.random.RandomState([params["seed"], position])
