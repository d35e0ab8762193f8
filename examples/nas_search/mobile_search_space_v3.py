"""The published mobile search spaces and reference networks, and the specs of their layers.

*Collapsed* bottlenecks choose kernel size and expansion one by one, so that all of them share their
1×1 convolutions; others choose one of six whole bottlenecks. Spaces and names are those of TuNAS
(Bender, Liu et al., CVPR 2020).
"""

from examples.nas_search import mobile_model_archive as archive
from examples.nas_search.basic_specs import (
    FILTERS_TAG,
    OP_TAG,
    ConvTowerSpec,
    FilterMultiplier,
    ZeroSpec,
    block,
)
from examples.nas_search.mobile_specs import (  # noqa: F401  (this is where users know them from)
    AVERAGE,
    MAX,
    RELU,
    RELU6,
    SIGMOID,
    SWISH6,
    ActivationSpec,
    ConvSpec,
    DepthwiseBottleneckSpec,
    DetectionEndpointSpec,
    GlobalAveragePoolSpec,
    PoolSpec,
    ResidualSpec,
    SeparableConvSpec,
    get_strides,
)
from examples.nas_search.schema import OneOf
from examples.nas_search.search_space_utils import prune_model_spec, scale_filters

# Reference networks
MOBILENET_V2 = "mobilenet_v2"
MNASNET_B1 = "mnasnet_b1"
PROXYLESSNAS_MOBILE = "proxylessnas_mobile"
MOBILENET_V3_LARGE = "mobilenet_v3_large"
MOBILENET_MULTI_AVG = "mobilenet_multi_avg"
MOBILENET_MULTI_MAX = "mobilenet_multi_max"

# Search spaces
PROXYLESSNAS_SEARCH = "proxylessnas_search"
PROXYLESSNAS_ENLARGED_SEARCH = "proxylessnas_enlarged_search"
MOBILENET_V3_LIKE_SEARCH = "mobilenet_v3_like_search"

# Those that are costed and regularized as MobileNetV3 is.
MOBILENET_V3_LIKE_SSDS = (
    MOBILENET_V3_LARGE,
    MOBILENET_V3_LIKE_SEARCH,
    MOBILENET_MULTI_AVG,
    MOBILENET_MULTI_MAX,
)

_WIDTH_MULTIPLIERS = (0.5, 0.625, 0.75, 1, 1.25, 1.5, 2)
_PROXYLESSNAS_STRIDES = (2, 1, 2, 2, 2, 1, 2, 1)  # of all blocks but the head


def choose_filters(choices):
    """Returns the choice between widths."""
    return OneOf(list(choices), FILTERS_TAG)


def _choose_op(*choices):
    return OneOf(list(choices), OP_TAG)


def _residual_or_skip(layer):
    return ResidualSpec(_choose_op(layer, ZeroSpec()))


def _widths_around(filters, base):
    """Returns the choice between the multiples of `base` next to multiples of a width."""
    return choose_filters(sorted({scale_filters(filters, m, base) for m in _WIDTH_MULTIPLIERS}))


def proxylessnas(filters, collapsed, strides=_PROXYLESSNAS_STRIDES):
    """Makes the space of ProxylessNAS (Cai et al., ICLR 2019), or one of its skeleton.

    Args:
        filters: Nine widths, each an int or `OneOf`.
        collapsed: Whether kernel size and expansion of a bottleneck are two choices, so that its
            1×1 convolutions can be shared, or one choice between six bottlenecks.
        strides: Of the first layer of each block but the last, which has 1.

    Returns:
        A `ConvTowerSpec`.
    """

    def bottleneck(kernel_size, expansion, strides):
        return DepthwiseBottleneckSpec(kernel_size, expansion, False, strides)

    def bottlenecks(strides):
        kernel_sizes, expansions = (3, 5, 7), [FilterMultiplier(3), FilterMultiplier(6)]
        if collapsed:
            return [bottleneck(_choose_op(*kernel_sizes), choose_filters(expansions), strides)]
        return [bottleneck(k, e, strides) for e in expansions for k in kernel_sizes]

    def layers(strides, num_residual, endpoint):
        first = _choose_op(*bottlenecks(strides))
        rest = [ResidualSpec(_choose_op(*bottlenecks(1), ZeroSpec())) for _ in range(num_residual)]
        return [first, *rest, *([DetectionEndpointSpec()] if endpoint else [])]

    separable = [SeparableConvSpec(kernel_size, strides[1]) for kernel_size in (3, 5, 7)]
    all_layers = [
        [ConvSpec(3, strides[0]), ActivationSpec(RELU)],
        [_choose_op(*separable), DetectionEndpointSpec()],
        layers(strides[2], 3, endpoint=True),
        layers(strides[3], 3, endpoint=True),
        layers(strides[4], 3, endpoint=False),
        layers(strides[5], 3, endpoint=True),
        layers(strides[6], 3, endpoint=True),
        layers(strides[7], 0, endpoint=True),
        [ConvSpec(1, 1), ActivationSpec(RELU), GlobalAveragePoolSpec()],
    ]
    return ConvTowerSpec(list(map(block, all_layers, filters)), filters_base=8)


def proxylessnas_reference(filters, operations, strides=_PROXYLESSNAS_STRIDES):
    """Makes a network of the skeleton of ProxylessNAS.

    Args:
        filters: Nine widths.
        operations: Indices of its operations, as `mobile_model_archive` has them.
        strides: As of `proxylessnas`.

    Returns:
        A `ConvTowerSpec` in which every `OneOf` has one choice.
    """
    genotype = {OP_TAG: operations, FILTERS_TAG: filters}
    space = proxylessnas(filters, False, strides)
    return prune_model_spec(space, genotype, prune_filters_by_value=True)


def _proxylessnas_search():
    return proxylessnas((32, 16, 32, 40, 80, 96, 192, 320, 1280), collapsed=True)


def _proxylessnas_enlarged_search():
    base = (16, 16, 16, 32, 64, 128, 256, 512, 1024)
    return proxylessnas([_widths_around(filters, 8) for filters in base], collapsed=True)


def _mobilenet_v3_like_search():
    """Makes the space around MobileNetV3-Large, with squeeze-and-excite to choose as well."""

    def bottleneck(strides, activation):
        return DepthwiseBottleneckSpec(
            kernel_size=_choose_op(3, 5, 7),
            expansion_filters=choose_filters(map(FilterMultiplier, (1, 2, 3, 4, 5, 6))),
            use_squeeze_and_excite=_choose_op(False, True),
            strides=strides,
            activation=activation,
        )

    def layers(strides, activation, endpoint):
        first = bottleneck(strides, activation)
        rest = [_residual_or_skip(bottleneck(1, activation)) for _ in range(3)]
        return [first, *rest, *([DetectionEndpointSpec()] if endpoint else [])]

    stem = [
        ConvSpec(_choose_op(3, 5), 2),
        ActivationSpec(SWISH6),
        _residual_or_skip(SeparableConvSpec(_choose_op(3, 5, 7), 1)),
        DetectionEndpointSpec(),
    ]
    all_layers = [
        stem,
        layers(2, RELU, endpoint=True),
        layers(2, RELU, endpoint=True),
        layers(2, SWISH6, endpoint=False),
        layers(1, SWISH6, endpoint=True),
        layers(2, SWISH6, endpoint=True),
        *_head(SWISH6),
    ]
    filters = [_widths_around(width, 8) for width in (16, 16, 32, 64, 128, 256, 512, 1024)]
    return ConvTowerSpec(list(map(block, all_layers, filters)), filters_base=8)


def _head(activation):
    """Returns the layers of the last two blocks: a pool between two 1×1 convolutions."""
    return [
        [ConvSpec(1, 1), ActivationSpec(activation), GlobalAveragePoolSpec()],
        [ConvSpec(1, 1, use_batch_norm=False), ActivationSpec(activation)],
    ]


def _fixed(stem, blocks, activation, filters_base):
    """Makes a network of a table of the archive.

    Args:
        stem: The first `Block`.
        blocks: Sequence of `FixedBlock`.
        activation: Of the head.
        filters_base: As in `ConvTowerSpec`.
    """

    def fixed_block(row):
        layers = [
            DepthwiseBottleneckSpec(
                kernel_size,
                choose_filters([expansion]),
                row.se,
                strides=1 if i else row.strides,
                activation=row.activation,
            )
            for i, (kernel_size, expansion) in enumerate(row.bottlenecks)
        ]
        layers[1:] = map(ResidualSpec, layers[1:])
        return block(layers + [DetectionEndpointSpec()] * row.endpoint, row.filters)

    head = map(block, _head(activation), (960, 1280))
    return ConvTowerSpec([stem, *map(fixed_block, blocks), *head], filters_base)


def _mobilenet_v3_large():
    stem = [
        ConvSpec(3, 2),
        ActivationSpec(SWISH6),
        ResidualSpec(SeparableConvSpec(3, 1)),
        DetectionEndpointSpec(),
    ]
    return _fixed(block(stem, 16), archive.MOBILENET_V3_LARGE, SWISH6, filters_base=8)


def _mobilenet_multi(blocks):
    stem = [ConvSpec(3, 2), ActivationSpec(RELU), DetectionEndpointSpec()]
    return _fixed(block(stem, 32), blocks, RELU, filters_base=32)


_SPACES = {
    MOBILENET_V2: lambda: proxylessnas_reference(
        archive.MOBILENET_V2_FILTERS, archive.MOBILENET_V2_OPERATIONS
    ),
    MNASNET_B1: lambda: proxylessnas_reference(archive.MNASNET_FILTERS, archive.MNASNET_OPERATIONS),
    PROXYLESSNAS_MOBILE: lambda: proxylessnas_reference(
        archive.PROXYLESSNAS_MOBILE_FILTERS, archive.PROXYLESSNAS_MOBILE_OPERATIONS
    ),
    MOBILENET_V3_LARGE: _mobilenet_v3_large,
    MOBILENET_MULTI_AVG: lambda: _mobilenet_multi(archive.MOBILENET_MULTI_AVG),
    MOBILENET_MULTI_MAX: lambda: _mobilenet_multi(archive.MOBILENET_MULTI_MAX),
    PROXYLESSNAS_SEARCH: _proxylessnas_search,
    PROXYLESSNAS_ENLARGED_SEARCH: _proxylessnas_enlarged_search,
    MOBILENET_V3_LIKE_SEARCH: _mobilenet_v3_like_search,
}
ALL_SSDS = tuple(_SPACES)


def get_search_space_spec(ssd):
    """Returns a published space.

    Args:
        ssd: Its name, one of `ALL_SSDS`.

    Returns:
        A `ConvTowerSpec`. In a reference network every `OneOf` has one choice.

    Raises:
        ValueError: If there is no such space.
    """
    if ssd not in _SPACES:
        raise ValueError(f"`ssd` must be one of {list(ALL_SSDS)}, but is {ssd!r}.")
    return _SPACES[ssd]()
