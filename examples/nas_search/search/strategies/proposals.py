"""Networks that strategies evaluate: functions of the seed, the position and the history.

So a search that was interrupted goes on exactly. A *proposal* is a function of

    position   of the network in the history, int
    history    the evaluations of all steps before, in order
    sizes      the numbers of options of the C choices of the space
    params     settings of the search

that returns the network, a tuple of C indices.
"""

from typing import Any, List, Mapping, Sequence, Tuple

import numpy as np

from examples.nas_search.search.strategies.history import Evaluation

Network = Tuple[int, ...]


def uniform(
    position: int,
    history: Sequence[Evaluation],
    sizes: Sequence[int],
    params: Mapping[str, Any],
) -> Network:
    """Proposes a network whose every choice is uniform and independent; see the module."""
    random = _random(position, params)
    return tuple(random.randint(size) for size in sizes)


def offspring(
    position: int,
    history: Sequence[Evaluation],
    sizes: Sequence[int],
    params: Mapping[str, Any],
) -> Network:
    """Proposes a mutation of a good network of late: ageing evolution; see the module.

    The first networks are uniform, until they are a population. Then, in each step, the population
    is that of the latest networks, as the oldest dies when another is born. The parent is the one
    with the best reward in a sample of the population, drawn with replacement. One of its choices
    gets another option; it may be one that the network does not reach.

    After Real et al., "Regularized Evolution for Image Classifier Architecture Search", AAAI 2019;
    with shared weights after Guo et al., "Single Path One-Shot Neural Architecture Search with
    Uniform Sampling", ECCV 2020. The difference: the towers' networks of a step are born together.
    """
    size = params["evolution_population_size"]
    open_choices = [choice for choice, options in enumerate(sizes) if options > 1]
    if len(history) < size or not open_choices:
        return uniform(position, history, sizes, params)
    random = _random(position, params)
    population = history[-size:]
    sample = random.randint(size, size=params["evolution_sample_size"])
    parent = max((population[member] for member in sample), key=lambda member: member.reward)
    return _mutated(parent.indices, sizes, open_choices, random)


def _mutated(
    indices: Network, sizes: Sequence[int], open_choices: List[int], random: np.random.RandomState
) -> Network:
    """Returns a network that has another option at one choice, all of them equally probable."""
    choice = open_choices[random.randint(len(open_choices))]
    others = [option for option in range(sizes[choice]) if option != indices[choice]]
    mutated = list(indices)
    mutated[choice] = others[random.randint(len(others))]
    return tuple(mutated)


def _random(position: int, params: Mapping[str, Any]) -> np.random.RandomState:
    """Returns a generator that depends on the seed of a search and a position alone."""
    return np.random.RandomState([params["seed"], position])
