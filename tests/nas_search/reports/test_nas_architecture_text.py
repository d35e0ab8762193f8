"""Networks in words."""

import pytest

from examples.nas_search import basic_specs, mobile_classifier_factory, schema
from examples.nas_search import mobile_search_space_v3 as space
from examples.nas_search.costs import network_cost
from examples.nas_search.reports import architecture_text
from nas_search.nas_searches import INDICES, SSD

OP, WIDTH = basic_specs.OP_TAG, basic_specs.FILTERS_TAG


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (space.ConvSpec(3, 2), "convolution 3×3, stride 2, batch norm"),
        (space.ConvSpec(1, 1, use_batch_norm=False), "convolution 1×1, bias"),
        (space.ConvSpec((3, 5), (1, 2)), "convolution 3×5, stride 1×2, batch norm"),
        (space.SeparableConvSpec(5, 1, space.SWISH6), "separable convolution 5×5, swish6"),
        (
            space.DepthwiseBottleneckSpec(3, basic_specs.FilterMultiplier(6), True, (2, 2)),
            "bottleneck 3×3, expansion ×6, stride 2, squeeze-and-excite, relu",
        ),
        (
            space.DepthwiseBottleneckSpec(
                schema.OneOf([3, 5], OP), 64, schema.OneOf([False, True], OP), 1
            ),
            "bottleneck 3×3|5×5, expansion 64, squeeze-and-excite False|True, relu",
        ),
        (space.ResidualSpec(space.ConvSpec(1, 1)), "convolution 1×1, batch norm, residual"),
        (space.ResidualSpec(schema.OneOf([basic_specs.ZeroSpec()], OP)), "skipped"),
        (
            schema.OneOf([space.ConvSpec(1, 1), basic_specs.ZeroSpec()], OP),
            "(convolution 1×1, batch norm)|skip",
        ),
        (space.GlobalAveragePoolSpec(), "global average pool"),
        (space.DetectionEndpointSpec(), "endpoint for detection"),
        (space.ActivationSpec(space.RELU6), "relu6"),
    ],
)
def test_layers_in_words(spec, words):
    assert architecture_text.text(spec) == words


@pytest.mark.parametrize(
    ("kernel", "brief"), [(3, "convolution 3×3, batch norm"), ([3, 5], "convolution")]
)
def test_brief_words_leave_out_what_is_still_to_be_chosen(kernel, brief):
    kernel = schema.OneOf(kernel, OP) if isinstance(kernel, list) else kernel
    assert architecture_text.brief(space.ConvSpec(kernel, 1)) == brief


def test_a_network_in_words():
    lines = architecture_text.describe(
        mobile_classifier_factory.get_model_spec(SSD, indices=INDICES)
    )
    assert lines[3:10] == [
        "block 1, width 8",
        "  bottleneck 5×5, expansion ×3, stride 2, relu",
        "  skipped",
        "block 2, width 8",
        "  bottleneck 3×3, expansion ×1, stride 2, relu",
        "  bottleneck 5×5, expansion ×1, relu, residual",
        "block 3, width 32",
    ]


def test_layers_are_shown_with_what_they_cost():
    spec = mobile_classifier_factory.get_model_spec(SSD, indices=INDICES)
    layers = network_cost.network_cost(spec, [8, 8, 1], 10).layers
    lines = [line.split("  ") for line in architecture_text.describe(spec, layers)]
    words = [[word.strip() for word in line if word] for line in lines]
    # 3 · 3 · 1 · 4 weights at each of 8 · 8 pixels; scale and offset of 4 channels.
    assert words[:3] == [
        ["block 0, width 4"],
        ["convolution 3×3, batch norm", "8×8×4", "2,304 MAdds", "44 parameters"],
        ["relu"],
    ]
    # 32 · 10 weights once, and 10 biases.
    assert words[-1] == ["classifier", "1×1×10", "320 MAdds", "330 parameters"]
