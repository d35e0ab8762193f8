"""A search space for images of 32×32 pixels, such as those of CIFAR-10, and reference networks.

It has the blocks, layers and choices of ProxylessNAS (Cai et al., ICLR 2019), and the strides that
are customary where MobileNetV2 is trained on CIFAR-10: the stem and the second block keep the size
of their inputs, so that 32×32 pixels become 4×4 at last, as 224×224 become 7×7 on ImageNet. Widths
are choices too; the largest are those of ProxylessNAS-mobile.

| block | layers                                    | width          | side of output |
|-------|-------------------------------------------|----------------|----------------|
| 0     | 3×3 convolution                           | 16, 24, 32     | 32             |
| 1     | separable convolution                     | 8, 16          | 32             |
| 2     | bottleneck, 3 optional ones               | 16, 24, 32     | 32             |
| 3     | bottleneck with stride 2, 3 optional ones | 24, 32, 40     | 16             |
| 4     | bottleneck with stride 2, 3 optional ones | 48, 64, 80     | 8              |
| 5     | bottleneck, 3 optional ones               | 64, 80, 96     | 8              |
| 6     | bottleneck with stride 2, 3 optional ones | 128, 160, 192  | 4              |
| 7     | bottleneck                                | 192, 256, 320  | 4              |
| 8     | 1×1 convolution, global average pool      | 640, 960, 1280 | 1              |

Bottlenecks choose a kernel size of 3, 5 or 7 and an expansion of 3 or 6, the separable convolution
its kernel size. That is 2.8e25 networks by the product over all choices, 3 · 6²¹ · 2¹⁵ · 2 · 3⁸,
and 8.7e21 distinct ones, 3 · 6⁶ · (6 + 1)¹⁵ · 2 · 3⁸: the settings of a skipped layer count once.
For the 10 classes of CIFAR-10 they take from 9,745,152 to 217,518,592 multiply-accumulates.

An index list has 73 entries, in the places of those of `proxylessnas_search`: `w0`; `op` and `w1`;
for blocks 2 to 6 four times `(kernel, expansion, outer)`, and `w`; `(kernel, expansion, outer)` and
`w7`; and `w8`. `outer` is 0 for the layer and 1 to skip it, where it is optional.

Two published networks are in the space, and spaces of one network by themselves:

| name                   | network             | multiply-accumulates | weights   |
|------------------------|---------------------|----------------------|-----------|
| `cifar10_mobilenet_v2` | MobileNetV2         | 87,976,448           | 2,236,682 |
| `cifar10_proxylessnas` | ProxylessNAS-mobile | 96,753,152           | 2,812,322 |
"""

from examples.nas_search import mobile_model_archive as archive
from examples.nas_search import mobile_search_space_v3 as mobile

CIFAR10_SEARCH = "cifar10_search"
CIFAR10_MOBILENET_V2 = "cifar10_mobilenet_v2"
CIFAR10_PROXYLESSNAS = "cifar10_proxylessnas"
STRIDES = (1, 1, 1, 2, 2, 1, 2, 1)
WIDTHS = (
    (16, 24, 32),
    (8, 16),
    (16, 24, 32),
    (24, 32, 40),
    (48, 64, 80),
    (64, 80, 96),
    (128, 160, 192),
    (192, 256, 320),
    (640, 960, 1280),
)


def get_search_space_spec():
    """Returns the space as a `ConvTowerSpec`."""
    return mobile.proxylessnas(list(map(mobile.choose_filters, WIDTHS)), True, STRIDES)


def get_mobilenet_v2_spec():
    """Returns MobileNetV2 (Sandler et al., CVPR 2018) for 32×32 pixels, a space of one network."""
    return mobile.proxylessnas_reference(
        archive.MOBILENET_V2_FILTERS, archive.MOBILENET_V2_OPERATIONS, STRIDES
    )


def get_proxylessnas_spec():
    """Returns ProxylessNAS-mobile for 32×32 pixels, a space of one network."""
    return mobile.proxylessnas_reference(
        archive.PROXYLESSNAS_MOBILE_FILTERS, archive.PROXYLESSNAS_MOBILE_OPERATIONS, STRIDES
    )
