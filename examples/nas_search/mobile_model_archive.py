"""Published mobile networks as tables; `mobile_search_space_v3` makes specs of them.

Two kinds. Networks of the ProxylessNAS skeleton are given by the width of each of its nine blocks
and the index of each operation: of the separable convolution of block 1, then of four bottlenecks
in each of blocks 2 to 6, then of the one of block 7. Index 6 skips the bottleneck. The others are
tables of their own blocks.
"""

import collections

# MobileNetV2, Sandler et al., CVPR 2018.
MOBILENET_V2_FILTERS = (32, 16, 24, 32, 64, 96, 160, 320, 1280)
MOBILENET_V2_OPERATIONS = (
    *(0,),
    *(3, 3, 6, 6),
    *(3, 3, 3, 6),
    *(3, 3, 3, 3),
    *(3, 3, 3, 6),
    *(3, 3, 3, 6),
    *(3,),
)

# MnasNet-B1, Tan et al., CVPR 2019.
MNASNET_FILTERS = (32, 16, 24, 40, 80, 96, 192, 320, 1280)
MNASNET_OPERATIONS = (
    *(0,),
    *(0, 0, 0, 6),
    *(1, 1, 1, 6),
    *(4, 4, 4, 6),
    *(3, 3, 6, 6),
    *(4, 4, 4, 4),
    *(3,),
)

# ProxylessNAS-mobile, Cai et al., ICLR 2019.
PROXYLESSNAS_MOBILE_FILTERS = (32, 16, 32, 40, 80, 96, 192, 320, 1280)
PROXYLESSNAS_MOBILE_OPERATIONS = (
    *(0,),
    *(1, 0, 6, 6),
    *(2, 0, 1, 1),
    *(5, 1, 1, 1),
    *(4, 1, 1, 1),
    *(5, 5, 2, 2),
    *(5,),
)


class FixedBlock(
    collections.namedtuple(
        "FixedBlock", ["filters", "strides", "bottlenecks", "activation", "se", "endpoint"]
    )
):
    """A block of bottlenecks, all residual but the first.

    Attributes:
        filters: Width of the outputs.
        strides: Of the first bottleneck; those of the others are 1.
        bottlenecks: Pairs (kernel size, expanded width).
        activation: Name of the activation, see `mobile_search_space_v3`.
        se: Whether the bottlenecks squeeze and excite.
        endpoint: Whether a detector could take the block's output.
    """

    __slots__ = ()


# MobileNetV3-Large, Howard et al., ICCV 2019, between its stem and its head. Its gate is a plain
# sigmoid here, where the paper has the hard one; the weights are the same in number.
MOBILENET_V3_LARGE = (
    FixedBlock(24, 2, ((3, 64), (3, 72)), "relu", False, True),
    FixedBlock(40, 2, ((5, 72), (5, 120), (5, 120)), "relu", True, True),
    FixedBlock(80, 2, ((3, 240), (3, 200), (3, 184), (3, 184)), "swish6", False, False),
    FixedBlock(112, 1, ((3, 480), (3, 672)), "swish6", True, True),
    FixedBlock(160, 2, ((5, 672), (5, 960), (5, 960)), "swish6", True, True),
)

# The multi-hardware models of Chu et al., "Discovering multi-hardware mobile models via
# architecture search", CVPRW 2021: best for the mean and for the worst of several kinds of devices.
MOBILENET_MULTI_AVG = (
    FixedBlock(32, 2, ((3, 96), (3, 64)), "relu", False, True),
    FixedBlock(64, 2, ((5, 160), (3, 192), (3, 128), (3, 192)), "relu", False, True),
    FixedBlock(128, 2, ((5, 384), (3, 384), (3, 384), (3, 384)), "relu", False, False),
    FixedBlock(160, 1, ((3, 768), (3, 640)), "relu", False, True),
    FixedBlock(192, 2, ((3, 960), (5, 768), (5, 768), (5, 768)), "relu", False, True),
)
MOBILENET_MULTI_MAX = (
    FixedBlock(32, 2, ((3, 96),), "relu", False, True),
    FixedBlock(64, 2, ((5, 192), (3, 128), (3, 128)), "relu", False, True),
    FixedBlock(128, 2, ((5, 384), (3, 512), (3, 384), (3, 384)), "relu", False, False),
    FixedBlock(128, 1, ((3, 768), (3, 384)), "relu", False, True),
    FixedBlock(160, 2, ((3, 768), (5, 640), (3, 800), (5, 640)), "relu", False, True),
)
