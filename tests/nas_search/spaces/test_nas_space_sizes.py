"""Search spaces have the published sizes, and the small one the costs that it claims."""

import inspect
import itertools
import math

import pytest

from examples.nas_search.costs import network_cost
from examples.nas_search.search_space_utils import cardinality, scale_filters
from examples.nas_search.spaces import digits_search_space
from examples.nas_search.spaces.search_spaces import get_search_space_spec as get_spec


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


def test_expansions_of_the_digits_space_are_all_different():
    # Rounding could make two expansions of a width the same, and the count of networks wrong.
    spec = get_spec("digits_search")
    inputs = {width for layer_block in spec.blocks for width in layer_block.filters.choices}
    for width in inputs:
        assert len({scale_filters(width, scale, spec.filters_base) for scale in (1, 3)}) == 2
