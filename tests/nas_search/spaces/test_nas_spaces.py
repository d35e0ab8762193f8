"""The search spaces and reference networks are the published ones."""

import pytest

from examples.nas_search import mobile_search_space_v3 as v3
from examples.nas_search import schema
from examples.nas_search.basic_specs import (
    FILTERS_TAG,
    OP_TAG,
    FilterMultiplier,
    ZeroSpec,
)
from examples.nas_search.spaces import search_spaces
from examples.nas_search.spaces.search_spaces import get_search_space_spec as get_spec

# Widths to choose from in the two published spaces that search for widths.
NARROW = [8, 16, 24, 32]
WIDE = [
    [16, 24, 32, 40, 48, 64],
    [32, 40, 48, 64, 80, 96, 128],
    [64, 80, 96, 128, 160, 192, 256],
    [128, 160, 192, 256, 320, 384, 512],
    [256, 320, 384, 512, 640, 768, 1024],
    [512, 640, 768, 1024, 1280, 1536, 2048],
]


def oneofs(spec):
    """Dict from path to choice, in visiting order."""
    found = {}

    def visit(path, oneof):
        found[path] = oneof
        return oneof

    schema.map_oneofs_with_paths(visit, spec)
    return found


def widths(spec):
    return [layer_block.filters.choices for layer_block in spec.blocks]


def test_all_published_names_exist():
    assert set(v3.ALL_SSDS) == {
        "mobilenet_v2",
        "mnasnet_b1",
        "proxylessnas_mobile",
        "mobilenet_v3_large",
        "mobilenet_multi_avg",
        "mobilenet_multi_max",
        "proxylessnas_search",
        "proxylessnas_enlarged_search",
        "mobilenet_v3_like_search",
    }
    assert len(v3.ALL_SSDS) == 9
    assert set(v3.MOBILENET_V3_LIKE_SSDS) == {
        "mobilenet_v3_large",
        "mobilenet_v3_like_search",
        "mobilenet_multi_avg",
        "mobilenet_multi_max",
    }
    assert list(search_spaces.ALL_SSDS) == [
        *v3.ALL_SSDS,
        "digits_search",
        "mnist_search",
        "pulses_search",
        "cifar10_search",
        "cifar10_mobilenet_v2",
        "cifar10_proxylessnas",
    ]


@pytest.mark.parametrize("spaces", [v3, search_spaces])
def test_unknown_names_are_refused(spaces):
    with pytest.raises(ValueError, match=r"`ssd` must be one of \['mobilenet_v2'.*but is 'other'"):
        spaces.get_search_space_spec("other")


# One letter for each choice, in visiting order: kernel, expansion, x for squeeze-and-excite, outer
# (whether the layer is skipped), separable convolution, kernel of the stem, width of the block.
PROXYLESS_LAYOUT = "w" + "sw" + ("keo" * 4 + "w") * 5 + "keow" + "w"
V3_LAYOUT = "tsow" + ("kex" + "kexo" * 3 + "w") * 5 + "ww"
DIGITS_LAYOUT = "w" + ("ke" + "keo" + "w") * 2 + "w"
PULSES_LAYOUT = "k" + "kexo" * 2 + "dw" + "kex" + "kexo" + "w" + "w"
MNIST_LAYOUT = "w" + ("ke" + "keo" * 2 + "w") * 3 + "w"
# The fields that letters stand for.
FIELDS = {
    "k": "kernel_size",
    "t": "kernel_size",
    "e": "expansion_filters",
    "x": "use_squeeze_and_excite",
    "w": "filters",
}


@pytest.mark.parametrize(
    ("ssd", "layout", "length"),
    [
        ("proxylessnas_search", PROXYLESS_LAYOUT, 73),
        ("proxylessnas_enlarged_search", PROXYLESS_LAYOUT, 73),
        ("mobilenet_v3_like_search", V3_LAYOUT, 86),
        ("digits_search", DIGITS_LAYOUT, 14),
        ("mnist_search", MNIST_LAYOUT, 29),
        ("pulses_search", PULSES_LAYOUT, 20),
        ("cifar10_search", PROXYLESS_LAYOUT, 73),
    ],
)
def test_index_lists_have_the_published_layout(ssd, layout, length):
    found = oneofs(get_spec(ssd))
    assert len(found) == len(layout) == length
    for letter, (path, oneof) in zip(layout, found.items()):
        assert oneof.tag == (FILTERS_TAG if letter in "ew" else OP_TAG), path
        if letter in FIELDS:
            assert path.endswith("/" + FIELDS[letter]), path
        if letter == "o":
            skips = [isinstance(choice, ZeroSpec) for choice in oneof.choices]
            assert skips == ([False, True] if path.endswith("/layer") else [False])


@pytest.mark.parametrize(
    ("ssd", "positions"),
    [
        (
            "proxylessnas_search",
            {
                0: "blocks/0/filters",
                1: "blocks/1/layers/0",
                3: "blocks/2/layers/0/choices/0/kernel_size",
                4: "blocks/2/layers/0/choices/0/expansion_filters",
                5: "blocks/2/layers/0",
                7: "blocks/2/layers/1/layer/choices/0/expansion_filters",
                8: "blocks/2/layers/1/layer",
                15: "blocks/2/filters",
                72: "blocks/8/filters",
            },
        ),
        (
            "mobilenet_v3_like_search",
            {
                0: "blocks/0/layers/0/kernel_size",
                1: "blocks/0/layers/2/layer/choices/0/kernel_size",
                2: "blocks/0/layers/2/layer",
                3: "blocks/0/filters",
                6: "blocks/1/layers/0/use_squeeze_and_excite",
                7: "blocks/1/layers/1/layer/choices/0/kernel_size",
                85: "blocks/7/filters",
            },
        ),
    ],
)
def test_paths_are_the_published_ones(ssd, positions):
    paths = list(oneofs(get_spec(ssd)))
    assert {position: paths[position] for position in positions} == positions


def test_widths_of_proxylessnas_search_are_fixed():
    expected = [[width] for width in (32, 16, 32, 40, 80, 96, 192, 320, 1280)]
    assert widths(get_spec("proxylessnas_search")) == expected


@pytest.mark.parametrize(
    ("ssd", "num_narrow"),
    [("proxylessnas_enlarged_search", 3), ("mobilenet_v3_like_search", 2)],
)
def test_widths_to_choose_from(ssd, num_narrow):
    assert widths(get_spec(ssd)) == [NARROW] * num_narrow + WIDE


@pytest.mark.parametrize("ssd", search_spaces.ALL_SSDS)
def test_widths_are_multiples_of_the_base(ssd):
    spec = get_spec(ssd)
    base = {
        "mobilenet_multi_avg": 32,
        "mobilenet_multi_max": 32,
        "digits_search": 2,
        "mnist_search": 4,
        "pulses_search": 2,
    }.get(ssd, 8)
    assert spec.filters_base == base
    for path, oneof in oneofs(spec).items():
        for choice in oneof.choices if oneof.tag == FILTERS_TAG else []:
            if not isinstance(choice, FilterMultiplier):
                assert choice % base == 0, path


# Whole alternatives, which share no weights.
THREE_SEPARABLE = [v3.SeparableConvSpec(kernel_size, 1) for kernel_size in (3, 5, 7)]


DOWNSAMPLINGS = [
    v3.ConvSpec((1, 3), (1, 2)),
    v3.PoolSpec("max", (1, 2), (1, 2)),
    v3.PoolSpec("average", (1, 2), (1, 2)),
]


def multipliers(*scales):
    return [FilterMultiplier(scale) for scale in scales]


@pytest.mark.parametrize(
    ("ssd", "layout", "letter", "choices"),
    [
        ("proxylessnas_search", PROXYLESS_LAYOUT, "k", [3, 5, 7]),
        ("proxylessnas_search", PROXYLESS_LAYOUT, "e", multipliers(3, 6)),
        ("proxylessnas_search", PROXYLESS_LAYOUT, "s", THREE_SEPARABLE),
        ("mobilenet_v3_like_search", V3_LAYOUT, "t", [3, 5]),
        ("mobilenet_v3_like_search", V3_LAYOUT, "k", [3, 5, 7]),
        ("mobilenet_v3_like_search", V3_LAYOUT, "s", [3, 5, 7]),
        ("mobilenet_v3_like_search", V3_LAYOUT, "e", multipliers(1, 2, 3, 4, 5, 6)),
        ("mobilenet_v3_like_search", V3_LAYOUT, "x", [False, True]),
        ("digits_search", DIGITS_LAYOUT, "k", [3, 5]),
        ("digits_search", DIGITS_LAYOUT, "e", multipliers(1, 3)),
        ("mnist_search", MNIST_LAYOUT, "k", [3, 5, 7]),
        ("mnist_search", MNIST_LAYOUT, "e", multipliers(1, 3, 6)),
        ("pulses_search", PULSES_LAYOUT, "k", [(1, 3), (1, 5), (1, 7), (1, 9), (1, 11)]),
        ("pulses_search", PULSES_LAYOUT, "e", multipliers(2, 3, 6)),
        ("pulses_search", PULSES_LAYOUT, "x", [False, True]),
        ("pulses_search", PULSES_LAYOUT, "d", DOWNSAMPLINGS),
        ("cifar10_search", PROXYLESS_LAYOUT, "k", [3, 5, 7]),
        ("cifar10_search", PROXYLESS_LAYOUT, "e", multipliers(3, 6)),
        ("cifar10_search", PROXYLESS_LAYOUT, "s", THREE_SEPARABLE),
    ],
)
def test_choices_of_layers(ssd, layout, letter, choices):
    found = oneofs(get_spec(ssd)).values()
    places = [oneof for oneof, place in zip(found, layout) if place == letter]
    assert places
    assert all(oneof.choices == choices for oneof in places)


def side_after_blocks(ssd, side):
    sides = []
    for layer_block in get_spec(ssd).blocks:
        for layer in layer_block.layers:
            if not isinstance(layer, v3.DetectionEndpointSpec):
                strides = v3.get_strides(layer)
                side = 1 if strides == (None, None) else -(-side // strides[1])
        sides.append(side)
    return sides


@pytest.mark.parametrize(
    ("ssd", "side", "expected"),
    [
        *(
            (ssd, 224, [112, 112, 56, 28, 14, 14, 7, 7, 1])
            for ssd in (
                "proxylessnas_search",
                "proxylessnas_enlarged_search",
                "mobilenet_v2",
                "mnasnet_b1",
                "proxylessnas_mobile",
            )
        ),
        *(
            (ssd, 224, [112, 56, 28, 14, 14, 7, 1, 1])
            for ssd in (
                "mobilenet_v3_like_search",
                "mobilenet_v3_large",
                "mobilenet_multi_avg",
                "mobilenet_multi_max",
            )
        ),
        ("digits_search", 8, [8, 4, 2, 1]),
        ("mnist_search", 28, [14, 7, 4, 4, 1]),
        ("pulses_search", 128, [64, 64, 1]),
        *(
            (ssd, 32, [32, 32, 32, 16, 8, 8, 4, 4, 1])
            for ssd in ("cifar10_search", "cifar10_mobilenet_v2", "cifar10_proxylessnas")
        ),
    ],
)
def test_sizes_of_images_after_each_block(ssd, side, expected):
    assert side_after_blocks(ssd, side) == expected


@pytest.mark.parametrize(
    ("ssd", "blocks"),
    [
        *((ssd, [1, 2, 3, 5, 6, 7]) for ssd in ("proxylessnas_search", "mobilenet_v2")),
        *(
            (ssd, [0, 1, 2, 4, 5])
            for ssd in ("mobilenet_v3_like_search", "mobilenet_v3_large", "mobilenet_multi_max")
        ),
    ],
)
def test_endpoints_end_their_blocks(ssd, blocks):
    spec = get_spec(ssd)
    ends = [
        [isinstance(layer, v3.DetectionEndpointSpec) for layer in layer_block.layers]
        for layer_block in spec.blocks
    ]
    assert [i for i, end in enumerate(ends) if any(end)] == blocks
    assert all(end.index(True) == len(end) - 1 for end in ends if any(end))


def test_activations_of_the_v3_space():
    spec = get_spec("mobilenet_v3_like_search")
    text = repr(spec.blocks)
    assert "relu6" not in text
    for i, layer_block in enumerate(spec.blocks[1:6], start=1):
        first, residual = layer_block.layers[:2]
        expected = "relu" if i <= 2 else "swish6"
        assert first.activation == residual.layer.choices[0].activation == expected
    separable = spec.blocks[0].layers[2].layer.choices[0]
    assert separable.activation == "relu"
    pooled, last = spec.blocks[6:]
    assert pooled.layers == [
        v3.ConvSpec(1, 1),
        v3.ActivationSpec("swish6"),
        v3.GlobalAveragePoolSpec(),
    ]
    assert last.layers == [v3.ConvSpec(1, 1, use_batch_norm=False), v3.ActivationSpec("swish6")]


@pytest.mark.parametrize("ssd", search_spaces.ALL_SSDS)
def test_no_two_spaces_share_objects(ssd):
    # A caller may edit its lists.
    first, second = get_spec(ssd), get_spec(ssd)
    assert first == second
    assert first.blocks is not second.blocks
    assert first.blocks[0].layers is not second.blocks[0].layers
