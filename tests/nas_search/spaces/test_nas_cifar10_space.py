"""The space for CIFAR-10 and its reference networks are as their module says."""

import inspect

import pytest

from examples.nas_search.basic_specs import FILTERS_TAG
from examples.nas_search.costs import network_cost
from examples.nas_search.mobile_classifier_factory import get_model_spec
from examples.nas_search.search_space_utils import cardinality
from examples.nas_search.spaces import cifar10_search_space
from examples.nas_search.spaces.search_spaces import get_search_space_spec as get_spec

CIFAR10 = ((32, 32, 3), 10)
# Stem, separable convolution and bottlenecks of MobileNetV2, Sandler et al., CVPR 2018, table 2:
# expansion, width, how often, and strides, those of 2 in the second block customarily 1.
MOBILENET_V2 = [(6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2)]
MOBILENET_V2 += [(6, 320, 1, 1)]


def test_numbers_of_networks_are_told():
    naive, distinct = cardinality(get_spec("cifar10_search"))
    docs = inspect.getdoc(cifar10_search_space)
    for number in (naive, distinct):
        assert f"{number:.1e}".replace("+", "") in docs


def extreme(kernel_size, expansion, outer, widths):
    """Returns the index list of a network that chooses the same everywhere."""
    indices = [widths[0], kernel_size, widths[1]]
    for width in widths[2:7]:
        indices += [kernel_size, expansion, 0, *[kernel_size, expansion, outer] * 3, width]
    return [*indices, kernel_size, expansion, 0, *widths[7:]]


@pytest.mark.parametrize(
    "choices",
    [(0, 0, 1, [0] * 9), (2, 1, 0, [2, 1, *[2] * 7])],
    ids=["cheapest", "costliest"],
)
def test_costs_of_the_space_are_told(choices):
    madds = network_cost.network_cost(get_spec("cifar10_search"), *CIFAR10, extreme(*choices)).madds
    assert f"{madds:,}" in inspect.getdoc(cifar10_search_space)


@pytest.mark.parametrize("ssd", ["cifar10_mobilenet_v2", "cifar10_proxylessnas"])
def test_reference_networks_have_nothing_to_choose_and_cost_what_is_told(ssd):
    spec = get_spec(ssd)
    assert cardinality(spec) == (1, 1)
    cost = network_cost.network_cost(spec, *CIFAR10)
    (row,) = [row for row in inspect.getdoc(cifar10_search_space).splitlines() if f"`{ssd}`" in row]
    numbers = [cell.strip() for cell in row.split("|")[3:5]]
    assert numbers == [f"{cost.madds:,}", f"{cost.params:,}"]


def test_mobilenet_v2_costs_what_its_table_gives():
    side = 32
    madds = side**2 * 9 * 3 * 32
    madds += side**2 * (9 * 32 + 32 * 16)
    params = (9 * 3 * 32 + 2 * 32) + (9 * 32 + 2 * 32 + 32 * 16 + 2 * 16)
    before = 16
    for expansion, width, count, strides in MOBILENET_V2:
        for step in [strides] + [1] * (count - 1):
            inner, large, side = expansion * before, side**2, side // step
            madds += large * before * inner + side**2 * (9 * inner + inner * width)
            params += before * inner + 9 * inner + inner * width + 2 * (2 * inner + width)
            before = width
    madds += side**2 * before * 1280 + 1280 * 10
    params += before * 1280 + 2 * 1280 + 1280 * 10 + 10
    assert side == 4
    cost = network_cost.network_cost(get_spec("cifar10_mobilenet_v2"), *CIFAR10)
    assert (cost.madds, cost.params) == (madds, params)


@pytest.mark.parametrize("ssd", ["cifar10_mobilenet_v2", "cifar10_proxylessnas"])
def test_reference_networks_are_the_published_ones_but_for_strides(ssd):
    published = {"cifar10_mobilenet_v2": "mobilenet_v2"}.get(ssd, "proxylessnas_mobile")
    one, other = (get_model_spec(name) for name in (ssd, published))
    assert [block.filters for block in one.blocks] == [block.filters for block in other.blocks]
    assert {block.filters.tag for block in one.blocks} == {FILTERS_TAG}
    # A kernel costs the same weights, whatever its strides.
    sizes = [network_cost.network_cost(spec, *CIFAR10).params for spec in (one, other)]
    assert sizes[0] == sizes[1]
