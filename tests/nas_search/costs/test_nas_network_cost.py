"""Exact costs: published figures, formulas by hand, and choices against pruned networks."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import selection
from bodies import matching
from examples.nas_search import (
    mobile_classifier_factory,
    mobile_search_space_v3,
    search_space_utils,
)
from examples.nas_search.basic_specs import (
    FILTERS_TAG,
    OP_TAG,
    ConvTowerSpec,
    FilterMultiplier,
    ZeroSpec,
    block,
)
from examples.nas_search.costs import network_batch, network_cost
from examples.nas_search.mobile_search_space_v3 import (
    RELU,
    ActivationSpec,
    ConvSpec,
    DepthwiseBottleneckSpec,
    DetectionEndpointSpec,
    GlobalAveragePoolSpec,
    ResidualSpec,
    SeparableConvSpec,
)
from examples.nas_search.schema import OneOf
from examples.nas_search.spaces import search_spaces

IMAGENET = (224, 224, 3)
SPACES = [
    "proxylessnas_search",
    "proxylessnas_enlarged_search",
    "mobilenet_v3_like_search",
    "digits_search",
    "cifar10_search",
]


# Parameters to the last one, as TensorFlow's and PyTorch's model collections count them for 1000
# classes, and MAdds as the papers round them: MobileNetV2 300 M (Sandler et al., CVPR 2018),
# MnasNet-B1 315 M (Tan et al., CVPR 2019), ProxylessNAS-mobile 320 M (Cai et al., ICLR 2019),
# MobileNetV3-Large 219 M (Howard et al., ICCV 2019; 217 M in those collections).
@pytest.mark.parametrize(
    "ssd, madds, tolerance, params",
    [
        ("mobilenet_v2", 300e6, 0.005, 3_504_872),
        ("mnasnet_b1", 315e6, 0.005, 4_383_312),
        ("proxylessnas_mobile", 320e6, 0.005, 4_080_512),
        ("mobilenet_v3_large", 218e6, 0.01, 5_483_032),
    ],
)
def test_published_figures(ssd, madds, tolerance, params):
    spec = mobile_search_space_v3.get_search_space_spec(ssd)
    cost = network_cost.network_cost(spec, IMAGENET, 1000)
    assert cost.params == params
    assert abs(cost.madds - madds) <= tolerance * madds
    # One class more is one column more of the classifier, and its bias.
    more = network_cost.network_cost(spec, IMAGENET, 1001)
    assert more.madds - cost.madds == 1280 and more.params - cost.params == 1281


def tower(*layers, filters=8, base=4):
    return ConvTowerSpec([block(list(layers), filters)], filters_base=base)


def parts(spec, input_shape=(7, 10, 3), num_classes=5):
    """Returns MAdds and parameters of each layer."""
    cost = network_cost.network_cost(spec, input_shape, num_classes)
    assert all(type(part) is int for layer in cost.layers for part in layer[2:])
    assert (cost.madds, cost.params) == tuple(
        sum(layer[i] for layer in cost.layers) for i in (2, 3)
    )
    return {layer.path: layer[1:] for layer in cost.layers}


def test_convolution():
    got = parts(tower(ConvSpec(3, 2), ActivationSpec(RELU), DetectionEndpointSpec()))
    # 7 × 10 pixels with stride 2 make 4 × 5; 9·3·8 weights, scale and offset of 8 channels.
    assert got["blocks/0/layers/0"] == ((4, 5, 8), 20 * 216, 216 + 16)
    assert got["blocks/0/layers/1"] == got["blocks/0/layers/2"] == ((4, 5, 8), 0, 0)
    # Without a pool, the classifier is applied to all pixels: 8·5 weights and 5 biases.
    assert got["classifier"] == ((1, 1, 5), 20 * 40, 45)


def test_convolution_with_bias_and_unequal_strides():
    got = parts(tower(ConvSpec(1, (1, 2), use_batch_norm=False), GlobalAveragePoolSpec()))
    assert got["blocks/0/layers/0"] == ((7, 5, 8), 35 * 24, 24 + 8)
    assert got["blocks/0/layers/1"] == ((1, 1, 8), 0, 0)
    assert got["classifier"] == ((1, 1, 5), 40, 45)


def test_separable_convolution():
    got = parts(tower(SeparableConvSpec(5, 2)))
    # 25·3 depthwise weights with 2·3 of batch norm, 3·8 pointwise ones with 2·8.
    assert got["blocks/0/layers/0"] == ((4, 5, 8), 20 * (75 + 24), 75 + 6 + 24 + 16)


def test_bottleneck():
    got = parts(tower(DepthwiseBottleneckSpec(3, 16, False, 2)))
    # 3·16 weights at 70 pixels; 9·16 and 16·8 at 20; batch norm of 16, 16 and 8 channels.
    want = 70 * 48 + 20 * (144 + 128), 48 + 144 + 128 + 2 * (16 + 16 + 8)
    assert got["blocks/0/layers/0"] == ((4, 5, 8), *want)


@pytest.mark.parametrize("expansion", [24, FilterMultiplier(6), FilterMultiplier(5.9)])
def test_squeeze_and_excite(expansion):
    plain = DepthwiseBottleneckSpec(3, expansion, False, 2)
    squeezed = DepthwiseBottleneckSpec(3, expansion, True, 2)
    stem = ConvSpec(1, 1), DetectionEndpointSpec()
    first, second = (
        network_cost.network_cost(tower(*stem, each, filters=4), (8, 8, 3), 5)
        for each in (plain, squeezed)
    )
    # The width 4 expands to 24, 4·round(23.6 / 4) = 24. A quarter is 6, which the base rounds to 8.
    assert second.madds - first.madds == 2 * 24 * 8
    assert second.params - first.params == 2 * 24 * 8 + 24 + 8


@pytest.mark.parametrize("multiplier, expanded", [(0.1, 4), (1, 12), (1.1, 12), (1.2, 16)])
def test_relative_expansions_are_multiples_of_the_base(multiplier, expanded):
    spec = tower(
        ConvSpec(1, 1),
        DepthwiseBottleneckSpec(3, FilterMultiplier(multiplier), False, 1),
        filters=12,
    )
    # At one pixel: 12·e + 9·e + e·12, on top of the stem 3·12 and the classifier 12·5.
    assert network_cost.network_cost(spec, (1, 1, 3), 5).madds == 33 * expanded + 36 + 60
    assert search_space_utils.scale_filters(12, multiplier, 4) == expanded


@pytest.mark.parametrize("base", [1, 4, 8, 32])
def test_squeezed_widths_are_those_of_the_layers(base):
    for value in np.arange(1, 500) / 4:
        want = search_space_utils.make_divisible(value, base)
        assert network_cost._make_divisible(np.array([value]), base) == [want]


def test_residual_and_skipped_layers():
    layer = DepthwiseBottleneckSpec(3, 16, False, 1)
    got = parts(
        tower(ConvSpec(1, 1), ResidualSpec(layer), ResidualSpec(OneOf([ZeroSpec()], OP_TAG)))
    )
    assert got["blocks/0/layers/1"] == parts(tower(ConvSpec(1, 1), layer))["blocks/0/layers/1"]
    assert got["blocks/0/layers/2"] == ((7, 10, 8), 0, 0)


@pytest.mark.parametrize("ssd", SPACES)
def test_a_chosen_network_costs_what_the_pruned_one_does(ssd):
    space = search_spaces.get_search_space_spec(ssd)
    shape, classes = ((8, 8, 1), 10) if ssd == "digits_search" else (IMAGENET, 1001)
    index_lists = network_batch.random_index_lists(space, 20, np.random.RandomState(0))
    madds, params = network_cost.costs_of_many(space, index_lists, shape, classes)
    assert len(set(madds)) > 10
    for number, indices in enumerate(index_lists):
        pruned = search_space_utils.prune_model_spec(space, list(indices))
        alone = network_cost.network_cost(pruned, shape, classes)
        chosen = network_cost.network_cost(space, shape, classes, indices)
        assert alone == chosen and alone[:2] == (madds[number], params[number])


def test_random_networks_are_uniform():
    space = [OneOf([OneOf([1, 2], "a"), 3, 4], "b"), OneOf([5], "c")]
    index_lists = network_batch.random_index_lists(space, 6000, np.random.RandomState(0))
    assert index_lists.shape == (6000, 3) and not index_lists[:, 2].any()
    # Three standard deviations of a frequency are 0.02.
    joint, _ = np.histogramdd(index_lists[:, :2], bins=(2, 3))
    np.testing.assert_allclose(joint / 6000, 1 / 6, atol=0.02)


def test_a_space_of_one_network():
    spec = tower(ConvSpec(3, 1))
    index_lists = network_batch.random_index_lists(spec, 3, np.random.RandomState(0))
    np.testing.assert_array_equal(index_lists, np.zeros([3, 1]))  # The width, an only option.
    madds, _ = network_cost.costs_of_many(spec, index_lists, (4, 4, 3), 2)
    assert list(madds) == [16 * 9 * 3 * 8 + 16 * 8 * 2] * 3


OPEN = tower(ConvSpec(OneOf([3, 5], OP_TAG), 1))


@pytest.mark.parametrize(
    "spec, indices, message",
    [
        (
            OPEN,
            None,
            "but blocks/0/layers/0/kernel_size is still open with 2…Pass `indices`, or prune",
        ),
        (OPEN, [0], "`indices` must have an index for each of 2 choices…but has 1…another space"),
        (OPEN, [0, 0, 0], "`indices` must have an index for each of 2 choices…but has 3"),
        (OPEN, [2, 0], "`indices` must lie in [0, 2) at blocks/0/layers/0/kernel_size…is 2"),
        (OPEN, [1, -1], "`indices` must lie in [0, 1) at blocks/0/filters…is -1…another space"),
        (OPEN, [0.5, 0], "`indices` must hold integers, but holds float64…Convert"),
        (
            tower(ResidualSpec(ConvSpec(3, 1))),
            [0],
            "residual layer must have an output of the size of its input…7×10×8 of 7×10×3…stride 1"
            "…[Layer blocks/0/layers/0.]",
        ),
        (
            tower(ConvSpec(1, 1), ResidualSpec(ConvSpec(3, 2))),
            [0],
            "residual layer must have an output of the size of its input…4×5×8 of 7×10×8",
        ),
        (
            tower(OneOf([ConvSpec(1, 1), ConvSpec(1, 2)], OP_TAG)),
            [0, 0],
            "All options of a choice must have outputs of the same height and width…7×10×8, 4×5×8…",
        ),
        (tower("conv"), [0], "cost of a layer of type str is not known: 'conv'…network_cost.py"),
    ],
)
def test_misuse(spec, indices, message):
    with pytest.raises(ValueError, match=matching(message)):
        network_cost.network_cost(spec, (7, 10, 3), 5, indices)


def test_unused_tags_do_not_matter():
    """Costs depend on what is chosen, not on what a choice is called."""
    one = tower(ConvSpec(OneOf([3, 5], OP_TAG), 1))
    other = tower(ConvSpec(OneOf([3, 5], FILTERS_TAG), 1))
    for index in (0, 1):
        assert network_cost.network_cost(one, (4, 4, 1), 2, [index, 0]) == (
            network_cost.network_cost(other, (4, 4, 1), 2, [index, 0])
        )


def conv_madds(graph):
    """Returns the multiply-accumulates of all convolutions of a graph, for one image."""
    total = 0
    for op in graph.get_operations():
        if op.type in ("Conv2D", "DepthwiseConv2dNative"):
            height, width, inputs, outputs = op.inputs[1].shape.as_list()
            rows, columns = op.outputs[0].shape.as_list()[1:3]
            # A depthwise kernel's outputs are those of each channel.
            total += rows * columns * height * width * inputs * outputs
    return total


@pytest.mark.parametrize(
    "ssd, indices",
    [
        selection.cell("mobilenet_v2", None, is_quick=False),
        selection.cell("mobilenet_v3_large", None, is_quick=False),
        ("mobilenet_multi_max", None),
        selection.cell("proxylessnas_search", "random", is_quick=False),
        ("mobilenet_v3_like_search", "random"),
        ("digits_search", "random"),
        selection.cell("cifar10_search", "random", is_quick=False),
        ("cifar10_mobilenet_v2", None),
        ("cifar10_proxylessnas", None),
    ],
)
def test_costs_are_those_of_the_graph(ssd, indices):
    space = search_spaces.get_search_space_spec(ssd)
    if indices == "random":
        random = np.random.RandomState(2)
        (indices,) = network_batch.random_index_lists(space, 1, random).tolist()
    # Odd sides show how strides round.
    shape, classes = ((9, 7, 1), 10) if ssd == "digits_search" else ((75, 50, 3), 20)
    spec = mobile_classifier_factory.get_model_spec(ssd, indices=indices)
    model = mobile_classifier_factory.get_standalone_model(spec, num_classes=classes)
    images = tf.zeros([1, *shape])
    model.build(images.shape)
    model.apply(images, training=False)
    cost = network_cost.network_cost(spec, shape, classes)
    weights = [variable.shape.num_elements() for variable in tf.trainable_variables()]
    assert cost.params == sum(weights)
    assert cost.madds == conv_madds(tf.get_default_graph())
