"""A search space for sequences of 128 values, images of one row, such as those of `pulses`.

Kernels, depth and downsampling decide how many values of a sequence a network sees at once: from 8
to 73.

| block | layers                                        | width                     | length |
|-------|-----------------------------------------------|---------------------------|--------|
| 0     | 1×k convolution, two optional bottlenecks     | 8, 12, 16, 24, 32         | 128    |
|       | downsampling                                  |                           | 64     |
| 1     | bottleneck, an optional one                   | 8, 12, 16, 24, 32, 48, 64 | 64     |
| 2     | 1×1 convolution, global average pool          | 16, 32, 64, 128           | 1      |

The first convolution and all bottlenecks choose a kernel of 1×3, 1×5, 1×7, 1×9 or 1×11, and
bottlenecks an expansion of 2, 3 or 6, with squeeze-and-excite or without. Downsampling, always by
2, is a 1×3 convolution, a 1×2 maximum pool or a 1×2 average pool. That is 1.9 billion networks:
5 · (30 + 1)² · 3 · 30 · (30 + 1) · 5 · 7 · 4. For the 20 classes of `pulses` they take from 31,040
to 9,314,816 multiply-accumulates.

An index list has 20 entries: `kernel`, twice `(kernel, expansion, squeeze, outer)`, `downsampling`
and `w0`; `(kernel, expansion, squeeze)`, `(kernel, expansion, squeeze, outer)` and `w1`; and `w2`.
`outer` is 0 for the layer and 1 to skip it.
"""

from typing import List, NamedTuple, Sequence, Tuple

from examples.nas_search.basic_specs import OP_TAG, ConvTowerSpec, FilterMultiplier, ZeroSpec, block
from examples.nas_search.mobile_search_space_v3 import (
    AVERAGE,
    MAX,
    RELU,
    ActivationSpec,
    ConvSpec,
    DepthwiseBottleneckSpec,
    GlobalAveragePoolSpec,
    PoolSpec,
    ResidualSpec,
    choose_filters,
)
from examples.nas_search.schema import OneOf

PULSES_SEARCH = "pulses_search"
KERNEL_LENGTHS = (3, 5, 7, 9, 11)
EXPANSIONS = (2, 3, 6)
DOWNSAMPLINGS = ("convolution", MAX, AVERAGE)
WIDTHS = ((8, 12, 16, 24, 32), (8, 12, 16, 24, 32, 48, 64), (16, 32, 64, 128))
DEPTHS = ((0, 2), (1, 2))  # fewest and most bottlenecks of blocks 0 and 1
_HALF = (1, 2)  # strides


class Bottleneck(NamedTuple):
    """A bottleneck of a network of the space."""

    length: int  # of the kernel
    expansion: int
    squeeze: bool = False  # whether it has squeeze-and-excite


class Layers(NamedTuple):
    """All of a network of the space but its widths."""

    stem: int  # length of the first kernel
    blocks: Sequence[Sequence[Bottleneck]]  # of blocks 0 and 1
    downsampling: str  # one of `DOWNSAMPLINGS`


def get_search_space_spec():
    """Returns the space as a `ConvTowerSpec`."""
    stem = [ConvSpec(_choose_kernel(), 1), ActivationSpec(RELU)]
    all_layers = [
        [*stem, _optional_bottleneck(), _optional_bottleneck(), _choose_downsampling()],
        [_bottleneck(), _optional_bottleneck()],
        [ConvSpec(1, 1), ActivationSpec(RELU), GlobalAveragePoolSpec()],
    ]
    return ConvTowerSpec(
        [block(layers, choose_filters(widths)) for layers, widths in zip(all_layers, WIDTHS)],
        filters_base=2,
    )


def _optional_bottleneck():
    return ResidualSpec(OneOf([_bottleneck(), ZeroSpec()], OP_TAG))


def _bottleneck():
    return DepthwiseBottleneckSpec(
        kernel_size=_choose_kernel(),
        expansion_filters=choose_filters(map(FilterMultiplier, EXPANSIONS)),
        use_squeeze_and_excite=OneOf([False, True], OP_TAG),
        strides=1,
    )


def _choose_kernel():
    return OneOf([(1, length) for length in KERNEL_LENGTHS], OP_TAG)


def _choose_downsampling():
    pools = [PoolSpec(kind, (1, 2), _HALF) for kind in DOWNSAMPLINGS[1:]]
    return OneOf([ConvSpec((1, 3), _HALF), *pools], OP_TAG)


def indices_of(layers: Layers, widths: Sequence[int]) -> List[int]:
    """Returns the index list of a network of the space.

    Args:
        layers: Its `Layers`.
        widths: Those of the three blocks.

    Raises:
        ValueError: If the space has no such network.
    """
    try:
        width_0, width_1, width_2 = (choices.index(w) for choices, w in zip(WIDTHS, widths))
        before, after = map(_indices_of_block, layers.blocks, DEPTHS)
        stem = KERNEL_LENGTHS.index(layers.stem)
        downsampling = DOWNSAMPLINGS.index(layers.downsampling)
    except ValueError as error:
        raise ValueError(
            f"A network of {PULSES_SEARCH} has kernels of {KERNEL_LENGTHS}, expansions of "
            f"{EXPANSIONS}, downsampling by {DOWNSAMPLINGS} and widths of {WIDTHS}, but is asked "
            f"for {layers} and {widths}: {error}."
        ) from error
    return [stem, *before, downsampling, width_0, *after, width_1, width_2]


def _indices_of_block(bottlenecks: Sequence[Bottleneck], depths: Tuple[int, int]) -> List[int]:
    fewest, most = depths
    if not fewest <= len(bottlenecks) <= most:
        raise ValueError(f"a block has {fewest} to {most} bottlenecks")
    indices = []
    for number, bottleneck in enumerate(bottlenecks):
        is_optional = number >= fewest
        indices += [*_indices_of_bottleneck(bottleneck), *([0] if is_optional else [])]
    return indices + [0, 0, 0, 1] * (most - len(bottlenecks))


def _indices_of_bottleneck(bottleneck: Bottleneck) -> Tuple[int, int, int]:
    return (
        KERNEL_LENGTHS.index(bottleneck.length),
        EXPANSIONS.index(bottleneck.expansion),
        int(bottleneck.squeeze),
    )
