"""A search space for images of 28×28 pixels, such as those of MNIST, that a CPU trains in seconds.

It has the skeleton of the last blocks of ProxylessNAS before the smallest images: blocks of strides
2, 2 and 1, in which layers choose kernel size and expansion, and all but the first may be skipped.
Widths are choices too, far from each other, so that networks of the same cost spend it in different
places.

| block | layers                                         | width         | side of output |
|-------|------------------------------------------------|---------------|----------------|
| 0     | 3×3 convolution with stride 2                  | 4, 8, 16      | 14             |
| 1     | bottleneck with stride 2, 2 optional ones      | 4, 8, 16      | 7              |
| 2     | bottleneck with stride 2, 2 optional ones      | 4, 8, 16, 24  | 4              |
| 3     | bottleneck with stride 1, 2 optional ones      | 4, 8, 16, 32  | 4              |
| 4     | 1×1 convolution, global average pool           | 16, 32, 64    | 1              |

Bottlenecks choose a kernel size of 3, 5 or 7 and an expansion of 1, 3 or 6. That is 3.1e11
networks: (9 · (9 + 1)²)³ · 3 · 3 · 4 · 4 · 3. For the 10 classes of MNIST they take from 16,628 to
3,001,056 multiply-accumulates.

An index list has 29 entries: `w0`; for blocks 1, 2 and 3 `(kernel, expansion)`, twice `(kernel,
expansion, outer)`, and `w`; and `w4`. `outer` is 0 for the layer and 1 to skip it.
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

MNIST_SEARCH = "mnist_search"
KERNEL_SIZES = (3, 5, 7)
EXPANSIONS = (1, 3, 6)
WIDTHS = ((4, 8, 16), (4, 8, 16), (4, 8, 16, 24), (4, 8, 16, 32), (16, 32, 64))
DEPTH = 3  # bottlenecks of a block, at most


def get_search_space_spec():
    """Returns the space as a `ConvTowerSpec`."""
    all_layers = [
        [ConvSpec(3, 2), ActivationSpec(RELU)],
        _bottlenecks(2),
        _bottlenecks(2),
        _bottlenecks(1),
        [ConvSpec(1, 1), ActivationSpec(RELU), GlobalAveragePoolSpec()],
    ]
    return ConvTowerSpec(
        [block(layers, choose_filters(widths)) for layers, widths in zip(all_layers, WIDTHS)],
        filters_base=4,
    )


def _bottlenecks(strides):
    return [_bottleneck(strides), *(_optional(_bottleneck(1)) for _ in range(DEPTH - 1))]


def _bottleneck(strides):
    return DepthwiseBottleneckSpec(
        kernel_size=OneOf(list(KERNEL_SIZES), OP_TAG),
        expansion_filters=choose_filters(map(FilterMultiplier, EXPANSIONS)),
        use_squeeze_and_excite=False,
        strides=strides,
    )


def _optional(layer):
    return ResidualSpec(OneOf([layer, ZeroSpec()], OP_TAG))


def indices_of(layers, widths):
    """Returns the index list of a network of the space.

    Args:
        layers: For each of the three blocks the pairs (kernel size, expansion) of its bottlenecks,
            from one to three.
        widths: Those of the five blocks.

    Returns:
        List of ints.

    Raises:
        ValueError: If the space has no such network.
    """
    try:
        chosen = [choices.index(width) for choices, width in zip(WIDTHS, widths)]
        of_blocks = [_indices_of_block(pairs) for pairs in layers]
    except ValueError as error:
        raise ValueError(
            f"A network of {MNIST_SEARCH} has kernel sizes of {KERNEL_SIZES}, expansions of "
            f"{EXPANSIONS} and widths of {WIDTHS}, but is asked for {layers} and {widths}: {error}."
        ) from error
    indices = chosen[:1]
    for of_block, width in zip(of_blocks, chosen[1:]):
        indices += [*of_block, width]
    return indices + chosen[-1:]


def _indices_of_block(pairs):
    if not 1 <= len(pairs) <= DEPTH:
        raise ValueError(f"a block has 1 to {DEPTH} bottlenecks")
    indices = []
    for number in range(DEPTH):
        is_there = number < len(pairs)
        if is_there:
            kernel_size, expansion = pairs[number]
            indices += [KERNEL_SIZES.index(kernel_size), EXPANSIONS.index(expansion)]
        else:
            indices += [0, 0]
        if number:
            indices.append(0 if is_there else 1)
    return indices
