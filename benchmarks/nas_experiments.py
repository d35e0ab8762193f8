"""Experiments of `nas_quality.py`: the space of a preset, the cost to aim at, and references.

A *reference* is a network of the space in the shape of a published one: it has the kernel sizes,
the expansions and the depth of three of its blocks, those of strides 2, 2 and 1. Among the widths
of the space that give it the cost at which searches aim, it has those with proportions nearest to
the published ones. So it can be trained and costed as the others are.
"""

import itertools
import math
import statistics
from typing import Mapping, NamedTuple, Sequence, Tuple

from examples.nas_search import mobile_cost_model
from examples.nas_search import mobile_model_archive as archive
from examples.nas_search.costs import cost_features
from examples.nas_search.spaces import digits_search_space, mnist_search_space, search_spaces


class Shape(NamedTuple):
    """The properties of a published network that a reference has; they do not depend on images."""

    layers: Sequence[Sequence[Tuple[int, int]]]  # by block, (kernel size, expansion) of each
    widths: Sequence[int]  # of stem, blocks and head


class Experiment(NamedTuple):
    """The space and target of searches, and the references that are compared with them."""

    space: str
    target: float  # cost that searches aim at, in million MAdds
    references: Mapping[str, Shape] = {}  # by name


_BLOCKS = (3, 4, 5)  # of the ProxylessNAS skeleton, those with strides 2, 2 and 1
_DEPTH = mnist_search_space.DEPTH


def _of_proxylessnas_skeleton(widths, operations):
    """Returns the `Shape` of a network that `mobile_model_archive.py` has as operations."""
    layers = []
    for number in _BLOCKS:
        chosen = operations[4 * number - 7 :][:_DEPTH]  # four of each block, but one of block 1
        layers.append([((3, 5, 7)[op % 3], (3, 6)[op // 3]) for op in chosen if op < 6])
    return Shape(layers, [widths[0], *(widths[number] for number in _BLOCKS), widths[-1]])


def _of_fixed_blocks(stem, blocks, head):
    """Returns the `Shape` of blocks of the archive, of which the first is no part of it."""
    layers = []
    for before, fixed in zip(blocks, blocks[1:]):
        inputs = [before.filters, *[fixed.filters] * _DEPTH]
        layers.append(
            [
                (kernel_size, 3 if expanded**2 < 3 * 6 * width**2 else 6)  # the nearer one
                for (kernel_size, expanded), width in zip(fixed.bottlenecks, inputs[:_DEPTH])
            ]
        )
    return Shape(layers, [stem, *(fixed.filters for fixed in blocks[1:]), head])


_MOBILENET_V2 = _of_proxylessnas_skeleton(
    archive.MOBILENET_V2_FILTERS, archive.MOBILENET_V2_OPERATIONS
)
_REFERENCES = {
    "mobilenet_v2": _MOBILENET_V2,
    "mnasnet_b1": _of_proxylessnas_skeleton(archive.MNASNET_FILTERS, archive.MNASNET_OPERATIONS),
    "proxylessnas_mobile": _of_proxylessnas_skeleton(
        archive.PROXYLESSNAS_MOBILE_FILTERS, archive.PROXYLESSNAS_MOBILE_OPERATIONS
    ),
    "mobilenet_v3_large": _of_fixed_blocks(16, archive.MOBILENET_V3_LARGE[:4], 960),
    # The smallest and the largest bottlenecks of the published ones, everywhere.
    "all_3x3_expansion_3": Shape([[(3, 3)] * _DEPTH] * len(_BLOCKS), _MOBILENET_V2.widths),
    "all_5x5_expansion_6": Shape([[(5, 6)] * _DEPTH] * len(_BLOCKS), _MOBILENET_V2.widths),
}

EXPERIMENTS = {
    "digits": Experiment(digits_search_space.DIGITS_SEARCH, 0.01),
    "mnist5k": Experiment(mnist_search_space.MNIST_SEARCH, 0.12, _REFERENCES),
}


def reference_indices(shape, target, window):
    """Returns the network of `mnist_search` that has a shape and costs what is asked for.

    Args:
        shape: A `Shape`.
        target: Cost in million MAdds.
        window: Share of it that the cost may be away.

    Returns:
        Indices, a list of ints: of the widths in the window those with the proportions of the
        shape, by least squares of logarithms; if none are in it, those with the nearest cost.
    """
    space = search_spaces.get_search_space_spec(mnist_search_space.MNIST_SEARCH)
    all_widths = list(itertools.product(*mnist_search_space.WIDTHS))
    index_lists = [mnist_search_space.indices_of(shape.layers, widths) for widths in all_widths]
    model = mobile_cost_model.default_model(mnist_search_space.MNIST_SEARCH)
    costs = model.estimate(cost_features.feature_positions(space, index_lists)[1])

    def distance(number):
        outside = max(abs(costs[number] / target - 1), window)
        ratios = [math.log(a / b) for a, b in zip(all_widths[number], shape.widths)]
        return outside, statistics.pvariance(ratios)

    return index_lists[min(range(len(all_widths)), key=distance)]
