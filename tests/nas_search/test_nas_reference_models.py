"""The reference networks are the published ones, layer by layer."""

import pytest

from examples.nas_search import mobile_search_space_v3 as v3
from examples.nas_search import schema
from examples.nas_search.basic_specs import FILTERS_TAG, OP_TAG, FilterMultiplier, ZeroSpec
from examples.nas_search.schema import OneOf
from examples.nas_search.search_space_utils import cardinality

REFERENCES = [
    "mobilenet_v2",
    "mnasnet_b1",
    "proxylessnas_mobile",
    "mobilenet_v3_large",
    "mobilenet_multi_avg",
    "mobilenet_multi_max",
]


def tags(spec):
    found = []
    schema.map_oneofs(lambda oneof: found.append(oneof.tag), spec)
    return found


def widths(spec):
    return [layer_block.filters.choices for layer_block in spec.blocks]


def layer_text(spec):
    """A layer in short; a bottleneck as [r]<kernel>/<expansion>s<strides>[+se]:<activation>."""
    if isinstance(spec, v3.ResidualSpec):
        return "r" + layer_text(spec.layer)
    if isinstance(spec, OneOf):
        (spec,) = spec.choices
        return layer_text(spec)
    if isinstance(spec, ZeroSpec):
        return "skip"
    if isinstance(spec, v3.ConvSpec):
        return f"conv{spec.kernel_size}s{spec.strides}{'' if spec.use_batch_norm else 'bias'}"
    if isinstance(spec, v3.SeparableConvSpec):
        return f"sep{spec.kernel_size}s{spec.strides}:{spec.activation}"
    if isinstance(spec, v3.ActivationSpec):
        return spec.name
    if isinstance(spec, v3.GlobalAveragePoolSpec):
        return "pool"
    if isinstance(spec, v3.DetectionEndpointSpec):
        return "E"
    assert isinstance(spec, v3.DepthwiseBottleneckSpec)
    assert (spec.se_inner_activation, spec.se_gating_activation) == ("relu", "sigmoid")
    expansion = spec.expansion_filters
    if isinstance(expansion, OneOf):
        assert expansion.tag == FILTERS_TAG
        (expansion,) = expansion.choices
    if isinstance(expansion, FilterMultiplier):
        expansion = f"x{expansion.scale}"
    se = "+se" if spec.use_squeeze_and_excite else ""
    return f"{spec.kernel_size}/{expansion}s{spec.strides}{se}:{spec.activation}"


def network_text(spec):
    return [" ".join(map(layer_text, layer_block.layers)) for layer_block in spec.blocks]


def proxyless_text(first, blocks, widths_of_blocks):
    stem = ["conv3s2 relu", first + " E"]
    ends = [" E", " E", "", " E", " E", " E"]
    bodies = [text + end for text, end in zip(blocks, ends)]
    return [*stem, *bodies, "conv1s1 relu pool"], [[w] for w in widths_of_blocks]


def rows(*blocks):
    """Expands "3/x6" and "skip" to what `network_text` prints; the first of a block has strides."""
    strides = [2, 2, 2, 1, 2, 1]
    texts = []
    for row, stride in zip(blocks, strides):
        layers = row.split()
        texts.append(
            " ".join(
                "rskip"
                if layer == "skip"
                else f"{'r' if i else ''}{layer}s{1 if i else stride}:relu"
                for i, layer in enumerate(layers)
            )
        )
    return texts


@pytest.mark.parametrize(
    ("ssd", "blocks", "widths_of_blocks"),
    [
        (
            "mobilenet_v2",
            rows(
                "3/x6 3/x6 skip skip",
                "3/x6 3/x6 3/x6 skip",
                "3/x6 3/x6 3/x6 3/x6",
                "3/x6 3/x6 3/x6 skip",
                "3/x6 3/x6 3/x6 skip",
                "3/x6",
            ),
            (32, 16, 24, 32, 64, 96, 160, 320, 1280),
        ),
        (
            "mnasnet_b1",
            rows(
                "3/x3 3/x3 3/x3 skip",
                "5/x3 5/x3 5/x3 skip",
                "5/x6 5/x6 5/x6 skip",
                "3/x6 3/x6 skip skip",
                "5/x6 5/x6 5/x6 5/x6",
                "3/x6",
            ),
            (32, 16, 24, 40, 80, 96, 192, 320, 1280),
        ),
        (
            "proxylessnas_mobile",
            rows(
                "5/x3 3/x3 skip skip",
                "7/x3 3/x3 5/x3 5/x3",
                "7/x6 5/x3 5/x3 5/x3",
                "5/x6 5/x3 5/x3 5/x3",
                "7/x6 7/x6 7/x3 7/x3",
                "7/x6",
            ),
            (32, 16, 32, 40, 80, 96, 192, 320, 1280),
        ),
    ],
)
def test_reference_networks_of_the_proxyless_skeleton(ssd, blocks, widths_of_blocks):
    spec = v3.get_search_space_spec(ssd)
    expected, expected_widths = proxyless_text("sep3s1:relu", blocks, widths_of_blocks)
    assert network_text(spec) == expected
    assert widths(spec) == expected_widths
    assert (tags(spec).count(OP_TAG), tags(spec).count(FILTERS_TAG)) == (22, 9)


@pytest.mark.parametrize(
    ("ssd", "num_oneofs", "expected"),
    [
        (
            "mobilenet_v3_large",
            22,
            {
                0: (16, "conv3s2 swish6 rsep3s1:relu E"),
                1: (24, "3/64s2:relu r3/72s1:relu E"),
                2: (40, "5/72s2+se:relu r5/120s1+se:relu r5/120s1+se:relu E"),
                3: (80, "3/240s2:swish6 r3/200s1:swish6 r3/184s1:swish6 r3/184s1:swish6"),
                4: (112, "3/480s1+se:swish6 r3/672s1+se:swish6 E"),
                5: (160, "5/672s2+se:swish6 r5/960s1+se:swish6 r5/960s1+se:swish6 E"),
                6: (960, "conv1s1 swish6 pool"),
                7: (1280, "conv1s1bias swish6"),
            },
        ),
        (
            "mobilenet_multi_avg",
            24,
            {
                0: (32, "conv3s2 relu E"),
                1: (32, "3/96s2:relu r3/64s1:relu E"),
                2: (64, "5/160s2:relu r3/192s1:relu r3/128s1:relu r3/192s1:relu E"),
                3: (128, "5/384s2:relu r3/384s1:relu r3/384s1:relu r3/384s1:relu"),
                4: (160, "3/768s1:relu r3/640s1:relu E"),
                5: (192, "3/960s2:relu r5/768s1:relu r5/768s1:relu r5/768s1:relu E"),
                6: (960, "conv1s1 relu pool"),
                7: (1280, "conv1s1bias relu"),
            },
        ),
        (
            "mobilenet_multi_max",
            22,
            {
                0: (32, "conv3s2 relu E"),
                1: (32, "3/96s2:relu E"),
                2: (64, "5/192s2:relu r3/128s1:relu r3/128s1:relu E"),
                3: (128, "5/384s2:relu r3/512s1:relu r3/384s1:relu r3/384s1:relu"),
                4: (128, "3/768s1:relu r3/384s1:relu E"),
                5: (160, "3/768s2:relu r5/640s1:relu r3/800s1:relu r5/640s1:relu E"),
                6: (960, "conv1s1 relu pool"),
                7: (1280, "conv1s1bias relu"),
            },
        ),
    ],
)
def test_reference_networks_with_tables_of_their_own(ssd, num_oneofs, expected):
    spec = v3.get_search_space_spec(ssd)
    assert network_text(spec) == [text for _, text in expected.values()]
    assert widths(spec) == [[width] for width, _ in expected.values()]
    assert tags(spec) == [FILTERS_TAG] * num_oneofs


@pytest.mark.parametrize("ssd", REFERENCES)
def test_reference_networks_have_nothing_to_choose(ssd):
    assert cardinality(v3.get_search_space_spec(ssd)) == (1, 1)
