"""Search spaces have the published sizes, and the small one the costs that it claims."""

import inspect
import itertools
import math

import pytest

from examples.nas_search.basic_specs import ZeroSpec
from examples.nas_search.costs import network_cost
from examples.nas_search.mobile_classifier_factory import get_model_spec
from examples.nas_search.mobile_specs import ResidualSpec
from examples.nas_search.search_space_utils import cardinality, scale_filters
from examples.nas_search.spaces import digits_search_space, mnist_search_space
from examples.nas_search.spaces.search_spaces import get_search_space_spec as get_spec

MNIST = mnist_search_space.MNIST_SEARCH


def count_by_listing(layers, choices):
    """Counts the networks of some layers by going through the index lists of each.

    Args:
        layers: Strings with a letter for each choice, with "o" at the end for an optional layer.
        choices: Dict from letter to the number of choices.
    """
    total = 1
    for layer in layers:
        seen = set()
        for indices in itertools.product(*(range(choices[letter]) for letter in layer)):
            is_skipped = layer.endswith("o") and indices[-1] == 1
            seen.add("skip" if is_skipped else indices)
        total *= len(seen)
    return total


@pytest.mark.parametrize(
    ("ssd", "magnitude", "naive", "layers", "num_widths", "choices"),
    [
        (
            "proxylessnas_search",
            21,
            # 21 bottlenecks, 15 of them optional; the separable convolution.
            6**21 * 2**15 * 3,
            ["s"] + ["ke"] * 6 + ["keo"] * 15,
            [1],
            {"s": 3, "k": 3, "e": 2, "o": 2},
        ),
        (
            "proxylessnas_enlarged_search",
            28,
            6**21 * 2**15 * 3 * (4**3 * 6 * 7**5),
            ["s"] + ["ke"] * 6 + ["keo"] * 15,
            [4, 4, 4, 6, 7, 7, 7, 7, 7],
            {"s": 3, "k": 3, "e": 2, "o": 2},
        ),
        (
            "mobilenet_v3_like_search",
            43,
            # 20 bottlenecks, 15 of them optional; the stem.
            (3 * 6 * 2) ** 20 * 2**15 * (2 * 3 * 2) * (4**2 * 6 * 7**5),
            ["t", "so"] + ["kex"] * 5 + ["kexo"] * 15,
            [4, 4, 6, 7, 7, 7, 7, 7],
            {"t": 2, "s": 3, "k": 3, "e": 6, "x": 2, "o": 2},
        ),
        (
            "digits_search",
            4,
            (2 * 2) ** 4 * 2**2 * 3**2,
            ["ke", "keo"] * 2,
            [3, 3],
            {"k": 2, "e": 2, "o": 2},
        ),
        (
            "mnist_search",
            13,
            (3 * 3) ** 9 * 2**6 * (3 * 3 * 4 * 4 * 3),
            ["ke", "keo", "keo"] * 3,
            [3, 3, 4, 4, 3],
            {"k": 3, "e": 3, "o": 2},
        ),
        (
            "pulses_search",
            10,
            5 * (5 * 3 * 2) ** 4 * 2**3 * 3 * (5 * 7 * 4),
            ["k", "kexo", "kexo", "d", "kex", "kexo"],
            [5, 7, 4],
            {"k": 5, "e": 3, "x": 2, "o": 2, "d": 3},
        ),
        (
            "cifar10_search",
            25,
            6**21 * 2**15 * 3 * (3**8 * 2),
            ["s"] + ["ke"] * 6 + ["keo"] * 15,
            [3, 2, 3, 3, 3, 3, 3, 3, 3],
            {"s": 3, "k": 3, "e": 2, "o": 2},
        ),
    ],
)
def test_sizes_of_spaces(ssd, magnitude, naive, layers, num_widths, choices):
    distinct = count_by_listing(layers, choices)
    for number in num_widths:
        distinct *= number
    assert cardinality(get_spec(ssd)) == (naive, distinct)
    assert round(math.log10(naive)) == magnitude


@pytest.mark.parametrize(
    ("indices", "madds"),
    [
        (
            [0, *(0, 0, 0, 0, 1), 0, *(0, 0, 0, 0, 1), 0, 0],
            64 * 9 * 4  # stem: 8×8 pixels, 3×3 of 1 channel to 4
            + (64 * 4 * 4 + 16 * 9 * 4 + 16 * 4 * 2)  # expand by 1, 3×3 to 4×4 pixels, project to 2
            + (16 * 2 * 2 + 4 * 9 * 2 + 4 * 2 * 4)  # the same from 2 to 4 channels and 2×2 pixels
            + 4 * 4 * 32  # head
            + 32 * 10,  # classifier
        ),
        (
            [0, *(1, 1, 1, 1, 0), 2, *(1, 1, 1, 1, 0), 2, 0],
            64 * 9 * 4
            + (64 * 4 * 12 + 16 * 25 * 12 + 16 * 12 * 8)
            + (16 * 8 * 24 + 16 * 25 * 24 + 16 * 24 * 8)
            + (16 * 8 * 24 + 4 * 25 * 24 + 4 * 24 * 16)
            + (4 * 16 * 48 + 4 * 25 * 48 + 4 * 48 * 16)
            + 4 * 16 * 32
            + 32 * 10,
        ),
    ],
    ids=["cheapest", "costliest"],
)
def test_costs_of_the_digits_space(indices, madds):
    spec = get_spec("digits_search")
    assert network_cost.network_cost(spec, (8, 8, 1), 10, indices).madds == madds
    docs = inspect.getdoc(digits_search_space)
    assert f"{madds:,}" in docs
    assert f"{cardinality(spec)[1]:,} networks" in docs


@pytest.mark.parametrize(
    ("ssd", "scales"),
    [("digits_search", (1, 3)), (MNIST, (1, 3, 6)), ("pulses_search", (1, 3, 6))],
)
def test_expansions_of_small_spaces_are_all_different(ssd, scales):
    # Rounding could make two expansions of a width the same, and the count of networks wrong.
    spec = get_spec(ssd)
    inputs = {width for layer_block in spec.blocks for width in layer_block.filters.choices}
    for width in inputs:
        scaled = {scale_filters(width, scale, spec.filters_base) for scale in scales}
        assert len(scaled) == len(scales)


@pytest.mark.parametrize(
    ("layers", "widths", "madds"),
    [
        (
            [[(3, 1)]] * 3,
            (4, 4, 4, 4, 16),
            196 * 9 * 4  # stem: 14×14 pixels, 3×3 of 1 channel to 4
            + (196 * 4 * 4 + 49 * 9 * 4 + 49 * 4 * 4)  # expand by 1, 3×3 to 7×7 pixels, project
            + (49 * 4 * 4 + 16 * 9 * 4 + 16 * 4 * 4)  # the same to 4×4 pixels
            + (16 * 4 * 4 + 16 * 9 * 4 + 16 * 4 * 4)  # and once more
            + 16 * 4 * 16  # head
            + 16 * 10,  # classifier
        ),
        (
            [[(7, 6)] * 3] * 3,
            (16, 16, 24, 32, 64),
            196 * 9 * 16
            + (196 * 16 * 96 + 49 * 49 * 96 + 49 * 96 * 16)
            + 2 * 49 * (16 * 96 + 49 * 96 + 96 * 16)
            + (49 * 16 * 96 + 16 * 49 * 96 + 16 * 96 * 24)
            + 2 * 16 * (24 * 144 + 49 * 144 + 144 * 24)
            + 16 * (24 * 144 + 49 * 144 + 144 * 32)
            + 2 * 16 * (32 * 192 + 49 * 192 + 192 * 32)
            + 16 * 32 * 64
            + 64 * 10,
        ),
    ],
    ids=["cheapest", "costliest"],
)
def test_costs_of_the_mnist_space(layers, widths, madds):
    spec = get_spec(MNIST)
    indices = mnist_search_space.indices_of(layers, widths)
    assert network_cost.network_cost(spec, (28, 28, 1), 10, indices).madds == madds
    assert f"{madds:,}" in inspect.getdoc(mnist_search_space)
    networks = cardinality(spec)[1]
    assert networks >= 1e9
    assert f"{networks:.1e}".replace("+", "") in inspect.getdoc(mnist_search_space)


def test_index_lists_of_the_mnist_space_are_those_of_its_networks():
    layers = [[(5, 3)], [(3, 1), (7, 6)], [(7, 3), (5, 1), (3, 6)]]
    widths = [8, 4, 24, 16, 32]
    indices = mnist_search_space.indices_of(layers, widths)
    spec = get_model_spec(MNIST, indices=indices)
    assert [layer_block.filters.choices for layer_block in spec.blocks] == [[w] for w in widths]
    for layer_block, wanted in zip(spec.blocks[1:4], layers):
        found = []
        for layer in layer_block.layers:
            if isinstance(layer, ResidualSpec):
                layer = layer.layer.choices[0]
            if not isinstance(layer, ZeroSpec):
                kernel, expansion = layer.kernel_size.choices, layer.expansion_filters.choices
                found.append((kernel[0], expansion[0].scale))
        assert found == wanted
    assert get_model_spec(MNIST, indices=list(map(int, indices))) == spec


@pytest.mark.parametrize(
    ("layers", "widths", "reason"),
    [
        ([[(4, 3)]] * 3, (4, 4, 4, 4, 16), "not in tuple"),
        ([[(3, 2)]] * 3, (4, 4, 4, 4, 16), "not in tuple"),
        ([[(3, 3)]] * 3, (4, 4, 4, 24, 16), "not in tuple"),
        ([[(3, 3)] * 4] * 3, (4, 4, 4, 4, 16), "a block has 1 to 3 bottlenecks"),
        ([[]] * 3, (4, 4, 4, 4, 16), "a block has 1 to 3 bottlenecks"),
    ],
)
def test_a_network_that_the_mnist_space_does_not_have_is_an_error(layers, widths, reason):
    message = rf"A network of mnist_search has kernel sizes of \(3, 5, 7\).*({reason})"
    with pytest.raises(ValueError, match=message):
        mnist_search_space.indices_of(layers, widths)
