"""A search space for sequences of 40 values, images of one row, such as those of MNIST-1D.

At one cost, its networks are very different: blocks have one bottleneck or two, kernels 3 to 11
values, and widths vary up to sixteenfold, so that many networks are narrow in some place. They are
shallow, so that kernels decide how much of a sequence a network sees at once. A convolution, which
has weights, or a pool, which has none, halves the length.

| block | layers                                        | width           | length |
|-------|-----------------------------------------------|-----------------|--------|
| 0     | 1×k convolution                               | 2, 4, 8, 16     | 40     |
| 1     | bottleneck, an optional one, downsampling     | 2, 4, 8, 16     | 20     |
| 2     | bottleneck, an optional one, downsampling     | 2, 4, 8, 16, 32 | 10     |
| 3     | 1×1 convolution, global average pool          | 8, 16, 32, 64   | 1      |

The first convolution and all bottlenecks choose a kernel of 1×3, 1×5, 1×7, 1×9 or 1×11, and
bottlenecks an expansion of 1, 3 or 6, with squeeze-and-excite or without. Downsampling, always by
2, is a 1×3 convolution, a 1×2 maximum pool or a 1×2 average pool. That is 1.2e10 networks:
5 · (30 · (30 + 1) · 3)² · 4 · 4 · 5 · 4. For the 10 classes of MNIST-1D they take from 1,320 to
838,016 multiply-accumulates.

An index list has 21 entries: `(kernel, w0)`; for blocks 1 and 2 `(kernel, expansion, squeeze)`,
`(kernel, expansion, squeeze, outer)`, `downsampling`, and `w`; and `w3`. `outer` is 0 for the
layer and 1 to skip it.
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

MNIST1D_SEARCH = "mnist1d_search"
KERNEL_LENGTHS = (3, 5, 7, 9, 11)
EXPANSIONS = (1, 3, 6)
DOWNSAMPLINGS = ("convolution", MAX, AVERAGE)
WIDTHS = ((2, 4, 8, 16), (2, 4, 8, 16), (2, 4, 8, 16, 32), (8, 16, 32, 64))
DEPTH = 2  # bottlenecks of a block, at most
_HALF = (1, 2)  # strides


class Bottleneck(NamedTuple):
    """A bottleneck of a network of the space."""

    length: int  # of the kernel
    expansion: int
    squeeze: bool = False  # whether it has squeeze-and-excite


class Layers(NamedTuple):
    """All of a network of the space but its widths."""

    stem: int  # length of the first kernel
    blocks: Sequence[Sequence[Bottleneck]]  # two, of one or two bottlenecks
    downsamplings: Sequence[str]  # one of `DOWNSAMPLINGS` for each of these blocks


def get_search_space_spec():
    """Returns the space as a `ConvTowerSpec`."""
    all_layers = [
        [ConvSpec(_choose_kernel(), 1), ActivationSpec(RELU)],
        *(_bottlenecks() for _ in range(2)),
        [ConvSpec(1, 1), ActivationSpec(RELU), GlobalAveragePoolSpec()],
    ]
    return ConvTowerSpec(
        [block(layers, choose_filters(widths)) for layers, widths in zip(all_layers, WIDTHS)],
        filters_base=2,
    )


def _bottlenecks():
    optional = [ResidualSpec(OneOf([_bottleneck(), ZeroSpec()], OP_TAG)) for _ in range(DEPTH - 1)]
    return [_bottleneck(), *optional, _choose_downsampling()]


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
        widths: Those of the four blocks.

    Raises:
        ValueError: If the space has no such network.
    """
    try:
        chosen = [choices.index(width) for choices, width in zip(WIDTHS, widths)]
        indices = [KERNEL_LENGTHS.index(layers.stem), chosen[0]]
        for bottlenecks, kind, width in zip(layers.blocks, layers.downsamplings, chosen[1:]):
            indices += [*_indices_of_block(bottlenecks), DOWNSAMPLINGS.index(kind), width]
    except ValueError as error:
        raise ValueError(
            f"A network of {MNIST1D_SEARCH} has kernels of {KERNEL_LENGTHS}, expansions of "
            f"{EXPANSIONS}, downsampling by {DOWNSAMPLINGS} and widths of {WIDTHS}, but is asked "
            f"for {layers} and {widths}: {error}."
        ) from error
    return indices + chosen[-1:]


def _indices_of_block(bottlenecks: Sequence[Bottleneck]) -> List[int]:
    if not 1 <= len(bottlenecks) <= DEPTH:
        raise ValueError(f"a block has 1 to {DEPTH} bottlenecks")
    first, *others = map(_indices_of_bottleneck, bottlenecks)
    skipped = [[0, 0, 0, 1]] * (DEPTH - len(bottlenecks))
    return sum([[*other, 0] for other in others] + skipped, [*first])


def _indices_of_bottleneck(bottleneck: Bottleneck) -> Tuple[int, int, int]:
    return (
        KERNEL_LENGTHS.index(bottleneck.length),
        EXPANSIONS.index(bottleneck.expansion),
        int(bottleneck.squeeze),
    )
