"""The space for pulses: its size and costs, and the index lists of its networks."""

import inspect

import pytest

from examples.nas_search import mobile_cost_model
from examples.nas_search.costs import network_cost
from examples.nas_search.mobile_classifier_factory import get_model_spec
from examples.nas_search.reports import architecture_text
from examples.nas_search.search_space_utils import cardinality
from examples.nas_search.spaces import pulses_search_space as space
from examples.nas_search.spaces.pulses_search_space import Bottleneck, Layers
from examples.nas_search.spaces.search_spaces import get_search_space_spec

SSD = space.PULSES_SEARCH


@pytest.mark.parametrize(
    ("layers", "widths", "madds"),
    [
        (
            Layers(3, [[], [Bottleneck(3, 2)]], "max"),
            (8, 8, 16),
            128 * 3 * 8  # 1×3 of 1 channel to 8
            + 64 * (8 * 16 + 3 * 16 + 16 * 8)  # expand by 2, 1×3, project
            + 64 * 8 * 16  # head
            + 16 * 20,  # classifier
        ),
        (
            Layers(11, [[Bottleneck(11, 6, True)] * 2] * 2, "convolution"),
            (32, 64, 128),
            128 * 11 * 32
            # Bottlenecks from 32 channels, whose squeeze-and-excite has 48 hidden units.
            + 2 * (128 * (32 * 192 + 11 * 192 + 192 * 32) + 2 * 192 * 48)
            + 64 * 3 * 32 * 32
            + (64 * (32 * 192 + 11 * 192 + 192 * 64) + 2 * 192 * 48)
            # From 64 channels, with 96 hidden units.
            + (64 * (64 * 384 + 11 * 384 + 384 * 64) + 2 * 384 * 96)
            + 64 * 64 * 128
            + 128 * 20,
        ),
    ],
    ids=["cheapest", "costliest"],
)
def test_costs_of_the_space(layers, widths, madds):
    spec = get_search_space_spec(SSD)
    indices = space.indices_of(layers, widths)
    assert network_cost.network_cost(spec, (1, 128, 1), 20, indices).madds == madds
    assert f"{madds:,}" in inspect.getdoc(space)
    assert f"{cardinality(spec)[1] / 1e9:.1f} billion networks" in inspect.getdoc(space)


def test_its_cost_model_is_exact_for_images_of_one_row():
    spec, model = get_search_space_spec(SSD), mobile_cost_model.default_model(SSD)
    assert (tuple(model.input_shape), model.num_classes) == ((1, 128, 1), 20)
    indices = [1] * 20
    cost = network_cost.network_cost(spec, (1, 128, 1), 20, indices).madds
    assert mobile_cost_model.estimate_cost(indices, SSD) == pytest.approx(cost / 1e6, rel=1e-6)


def test_index_lists_are_those_of_its_networks():
    blocks = [[Bottleneck(5, 3)], [Bottleneck(9, 2, True), Bottleneck(11, 6)]]
    indices = space.indices_of(Layers(7, blocks, "average"), [8, 24, 16])
    assert architecture_text.describe(get_model_spec(SSD, indices=indices)) == [
        *("block 0, width 8", "  convolution 1×7, batch norm", "  relu"),
        *("  bottleneck 1×5, expansion ×3, relu, residual", "  skipped"),
        "  average pool 1×2, stride 1×2",
        "block 1, width 24",
        "  bottleneck 1×9, expansion ×2, squeeze-and-excite, relu",
        "  bottleneck 1×11, expansion ×6, relu, residual",
        *("block 2, width 16", "  convolution 1×1, batch norm", "  relu", "  global average pool"),
    ]


USUAL = Layers(3, [[], [Bottleneck(3, 2)]], "max")


@pytest.mark.parametrize(
    ("layers", "widths", "reason"),
    [
        (USUAL._replace(stem=4), (8, 8, 16), "tuple.index"),
        (USUAL._replace(downsampling="none"), (8, 8, 16), "tuple.index"),
        (USUAL._replace(blocks=[[], [Bottleneck(3, 1)]]), (8, 8, 16), "tuple.index"),
        (USUAL, (8, 8, 17), "tuple.index"),
        (USUAL._replace(blocks=[[], []]), (8, 8, 16), "a block has 1 to 2 bottlenecks"),
        (
            USUAL._replace(blocks=[[Bottleneck(3, 2)] * 3] * 2),
            (8, 8, 16),
            "a block has 0 to 2 bottlenecks",
        ),
    ],
)
def test_a_network_that_it_does_not_have_is_an_error(layers, widths, reason):
    message = rf"A network of pulses_search has kernels of \(3, 5, 7, 9, 11\).*({reason})"
    with pytest.raises(ValueError, match=message):
        space.indices_of(layers, widths)
