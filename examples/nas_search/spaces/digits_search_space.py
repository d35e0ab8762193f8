"""A small search space for small images, such as the 8×8 digits of scikit-learn.

It has the choices of the large spaces in the same specs: kernel sizes, expansions, widths and
skipped layers. A network of it trains alone on a CPU in seconds, so that the best of many can be
found without a search, to compare with what a search finds.

| block | layers                                        | width     | side of output |
|-------|-----------------------------------------------|-----------|----------------|
| 0     | 3×3 convolution                               | 4         | 8              |
| 1     | bottleneck with stride 2, optional bottleneck | 2, 4, 8   | 4              |
| 2     | bottleneck with stride 2, optional bottleneck | 4, 8, 16  | 2              |
| 3     | 1×1 convolution, global average pool          | 32        | 1              |

Bottlenecks choose a kernel size of 3 or 5 and an expansion of 1 or 3. That is 3,600 networks:
(4 · (4 + 1) · 3)². For the digits and their 10 classes they take from 5,032 to 47,776
multiply-accumulates. They are this small because larger ones all come near the best accuracy that
so few images allow: of networks that take 10,000, those drawn at random differ by some per cent.

An index list has 14 entries: `w0`; for blocks 1 and 2 `(kernel, expansion)`, `(kernel, expansion,
outer)` and `w`; and `w3`. `outer` is 0 for the layer and 1 to skip it.
"""

from examples.nas_search.basic_specs import OP_TAG, ConvTowerSpec, FilterMultiplier, ZeroSpec, block
from examples.nas_search.mobile_search_space_v3 import (
    RELU,
    ActivationSpec,
    ConvSpec,
    DepthwiseBottleneckSpec,
    GlobalAveragePoolSpec,
    ResidualSpec,
    choose_filters,
)
from examples.nas_search.schema import OneOf

DIGITS_SEARCH = "digits_search"


def get_search_space_spec():
    """Returns the space as a `ConvTowerSpec`."""
    all_layers = [
        [ConvSpec(3, 1), ActivationSpec(RELU)],
        [_bottleneck(2), _optional(_bottleneck(1))],
        [_bottleneck(2), _optional(_bottleneck(1))],
        [ConvSpec(1, 1), ActivationSpec(RELU), GlobalAveragePoolSpec()],
    ]
    filters = [4, choose_filters([2, 4, 8]), choose_filters([4, 8, 16]), 32]
    return ConvTowerSpec(list(map(block, all_layers, filters)), filters_base=2)


def _bottleneck(strides):
    return DepthwiseBottleneckSpec(
        kernel_size=OneOf([3, 5], OP_TAG),
        expansion_filters=choose_filters([FilterMultiplier(1), FilterMultiplier(3)]),
        use_squeeze_and_excite=False,
        strides=strides,
    )


def _optional(layer):
    return ResidualSpec(OneOf([layer, ZeroSpec()], OP_TAG))
