"""Specs have their published fields; strides of layers are known, impossible ones refused."""

import pytest

from examples.nas_search import mobile_search_space_v3 as v3
from examples.nas_search.basic_specs import (
    FILTERS_TAG,
    ConvTowerSpec,
    FilterMultiplier,
    ZeroSpec,
    block,
)
from examples.nas_search.schema import OneOf


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (ConvTowerSpec, "blocks filters_base"),
        (block([], 8), "layers filters"),
        (FilterMultiplier, "scale"),
        (ZeroSpec, ""),
        (v3.ActivationSpec, "name"),
        (v3.ConvSpec, "kernel_size strides use_batch_norm"),
        (v3.SeparableConvSpec, "kernel_size strides activation"),
        (
            v3.DepthwiseBottleneckSpec,
            "kernel_size expansion_filters use_squeeze_and_excite strides activation "
            "se_inner_activation se_gating_activation",
        ),
        (v3.PoolSpec, "kind pool_size strides"),
        (v3.GlobalAveragePoolSpec, ""),
        (v3.ResidualSpec, "layer"),
        (v3.DetectionEndpointSpec, ""),
    ],
)
def test_fields_have_their_published_order(spec, fields):
    assert list(spec._fields) == fields.split()


def test_defaults_of_specs():
    assert v3.ConvSpec(3, 2) == v3.ConvSpec(3, 2, True)
    assert v3.SeparableConvSpec(3, 2) == v3.SeparableConvSpec(3, 2, "relu")
    assert v3.DepthwiseBottleneckSpec(3, 8, False, 1) == v3.DepthwiseBottleneckSpec(
        3, 8, False, 1, "relu", "relu", "sigmoid"
    )
    assert [v3.RELU, v3.RELU6, v3.SWISH6, v3.SIGMOID] == ["relu", "relu6", "swish6", "sigmoid"]


def test_multipliers_are_ordered_by_scale():
    assert sorted(map(FilterMultiplier, [3, 1, 2])) == list(map(FilterMultiplier, [1, 2, 3]))


def test_a_fixed_width_becomes_a_choice():
    assert block([], 8).filters == OneOf([8], FILTERS_TAG)
    assert block([], v3.choose_filters([8, 16])).filters == OneOf([8, 16], FILTERS_TAG)


BOTTLENECK = v3.DepthwiseBottleneckSpec(3, 8, False, 2)
POOL = v3.GlobalAveragePoolSpec()


@pytest.mark.parametrize(
    ("spec", "strides"),
    [
        (v3.ConvSpec(3, 2), (2, 2)),
        (v3.ConvSpec(3, (2, 1)), (2, 1)),
        (v3.SeparableConvSpec(3, [1, 2]), (1, 2)),
        (v3.PoolSpec(v3.MAX, 3, (1, 2)), (1, 2)),
        (OneOf([v3.PoolSpec(v3.AVERAGE, 2, 2), v3.ConvSpec((1, 3), 2)], "t"), (2, 2)),
        (BOTTLENECK, (2, 2)),
        (ZeroSpec(), (1, 1)),
        (v3.ActivationSpec("relu"), (1, 1)),
        (POOL, (None, None)),
        (OneOf([BOTTLENECK, v3.ConvSpec(3, 2)], "t"), (2, 2)),
        (OneOf([POOL, v3.ConvSpec(3, 2)], "t"), (2, 2)),
        (OneOf([POOL, POOL], "t"), (None, None)),
        (v3.ResidualSpec(v3.ConvSpec(3, 1)), (1, 1)),
        (v3.ResidualSpec(OneOf([v3.ConvSpec(3, 1), ZeroSpec()], "t")), (1, 1)),
        (v3.ResidualSpec(OneOf([v3.ConvSpec(3, 1), POOL], "t")), (1, 1)),
    ],
)
def test_strides(spec, strides):
    assert v3.get_strides(spec) == strides


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (OneOf([BOTTLENECK, ZeroSpec()], "t"), r"Stride mismatch: choices have strides \[1, 2\]"),
        (
            OneOf([v3.ConvSpec(3, (1, 2)), v3.ConvSpec(3, 1)], "t"),
            r"Stride mismatch: choices have strides \[1, 2\]",
        ),
        (v3.ResidualSpec(BOTTLENECK), r"must have strides \(1, 1\), but has \(2, 2\)"),
        (v3.ResidualSpec(POOL), r"must have strides \(1, 1\), but has \(None, None\)"),
        (v3.DetectionEndpointSpec(), r"Only layers that make an output have strides, not Detec"),
        (3, r"Only layers that make an output have strides, not 3"),
    ],
)
def test_impossible_strides_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        v3.get_strides(spec)
