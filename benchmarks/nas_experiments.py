"""Experiments of `nas_quality.py`: the space of a preset, the cost to aim at, and references.

A *reference* is a network of the space in the shape of a published one, or one whose blocks are all
alike. In `mnist_search` it has the kernel sizes, the expansions and the depth of three published
blocks, those of strides 2, 2 and 1. Among the widths of the space that give it the cost at which
searches aim, it has those with proportions nearest to the published ones. So it can be trained and
costed as the others are.
"""

import itertools
import math
import statistics
from typing import Any, Mapping, NamedTuple, Sequence

from examples.nas_search import mobile_cost_model
from examples.nas_search import mobile_model_archive as archive
from examples.nas_search.costs import cost_features
from examples.nas_search.spaces import (
    digits_search_space,
    mnist_search_space,
    pulses_search_space,
    search_spaces,
)
from examples.nas_search.spaces.pulses_search_space import Bottleneck, Layers


class Shape(NamedTuple):
    """The properties of a published network that a reference has; they do not depend on images."""

    layers: Any  # as `indices_of` of the space takes them
    widths: Sequence[int]  # of stem, blocks and head


class Experiment(NamedTuple):
    """The space and target of searches, and the references that are compared with them."""

    space: str
    target: float  # cost that searches aim at, in million MAdds
    references: Mapping[str, Shape] = {}  # by name


# The modules that make indices of shapes, by the names of their spaces.
_SPACES = {
    mnist_search_space.MNIST_SEARCH: mnist_search_space,
    pulses_search_space.PULSES_SEARCH: pulses_search_space,
}
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


def _of_equal_bottlenecks(bottleneck, depths=(0, 1)):
    """Returns the `Shape` of a network of `pulses_search` whose bottlenecks are all alike."""
    blocks = [[bottleneck] * depth for depth in depths]
    return Shape(Layers(bottleneck.length, blocks, pulses_search_space.MAX), (16, 32, 64))


_PULSES_REFERENCES = {
    # Bottlenecks that published networks have most of, with kernels of the same lengths.
    "mobilenet_v2": _of_equal_bottlenecks(Bottleneck(3, 6)),
    "mnasnet_b1": _of_equal_bottlenecks(Bottleneck(5, 3)),
    "proxylessnas_mobile": _of_equal_bottlenecks(Bottleneck(7, 3)),
    "mobilenet_v3_large": _of_equal_bottlenecks(Bottleneck(5, 6, True)),
    # The smallest and the largest kernels everywhere, in a shallow network and a deeper one.
    "all_3": _of_equal_bottlenecks(Bottleneck(3, 2), (1, 2)),
    "all_11": _of_equal_bottlenecks(Bottleneck(11, 2), (1, 2)),
    "all_11_shallow": _of_equal_bottlenecks(Bottleneck(11, 2)),
}

EXPERIMENTS = {
    "digits": Experiment(digits_search_space.DIGITS_SEARCH, 0.01),
    "mnist5k": Experiment(mnist_search_space.MNIST_SEARCH, 0.12, _REFERENCES),
    "pulses": Experiment(pulses_search_space.PULSES_SEARCH, 0.2, _PULSES_REFERENCES),
}


def reference_indices(space, shape, target, window):
    """Returns the network of a space that has a shape and costs what is asked for.

    Args:
        space: Name of the space, `mnist_search` or `pulses_search`.
        shape: A `Shape`.
        target: Cost in million MAdds.
        window: Share of it that the cost may be away.

    Returns:
        Indices, a list of ints: of the widths in the window those with the proportions of the
        shape, by least squares of logarithms; if none are in it, those with the nearest cost.
    """
    spec = search_spaces.get_search_space_spec(space)
    all_widths = list(itertools.product(*_SPACES[space].WIDTHS))
    index_lists = [_SPACES[space].indices_of(shape.layers, widths) for widths in all_widths]
    model = mobile_cost_model.default_model(space)
    costs = model.estimate(cost_features.feature_positions(spec, index_lists)[1])

    def distance(number):
        outside = max(abs(costs[number] / target - 1), window)
        ratios = [math.log(a / b) for a, b in zip(all_widths[number], shape.widths)]
        return outside, statistics.pvariance(ratios)

    return index_lists[min(range(len(all_widths)), key=distance)]
