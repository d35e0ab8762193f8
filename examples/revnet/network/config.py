"""The configuration of a RevNet, and the published networks by name."""

import dataclasses
import functools
import math
import operator
from typing import Optional, Tuple

DATA_FORMATS = ("channels_last", "channels_first")
DTYPES = ("float32", "float64", "bfloat16", "float16")


@dataclasses.dataclass(frozen=True)
class RevNetConfig:
    """A reversible residual network; made by `preset`, or from scratch.

    Attributes:
        image_shape: Height, width and channels of an image, whatever `data_format` is.
        num_classes: How many classes there are.
        units: Units of each stage. The first of a stage changes stride and width.
        filters: Width of each stage, both halves together; of its 3×3 convolutions if
            `bottleneck`, where the stage itself is four times as wide.
        strides: Stride of the first unit of each stage; None: 1, then 2.
        bottleneck: Whether F and G are convolutions of 1×1, 3×3 and 1×1, in place of two of 3×3.
        initial_filters: Width of the first convolution.
        initial_kernel_size: Side of its kernel.
        initial_stride: Its stride.
        initial_max_pool: Whether 3×3 max-pooling of stride 2 follows it.
        data_format: `'channels_last'`, or `'channels_first'` for GPUs.
        dtype: What convolutions compute in. With `'bfloat16'` or `'float16'`, variables, sums and
            statistics are float32, so that inputs can be reconstructed.
        recompute: Whether activations are recomputed in the backward pass; False stores them.
        stored_units: How many activations are stored all the same: as many as so many units of
            each stage but the first have. With 0, a step takes the least memory, with more, less
            time. Which they are, see `stored_activations.py`.
        cross_tower_batch_norm: Whether batch norm takes its moments over the rows of all towers,
            as one device does; False: over those of each tower.
        batch_norm_momentum: How much of the moving statistics stays in each step.
        batch_norm_epsilon: What is added to the variance.
        dropout_rate: Share of activations that are dropped before the last convolution of F and G.
        weight_decay: Penalty on kernels: `weight_decay * tf.nn.l2_loss(kernel)` is added to the
            loss.
        seed: Seed of the initial weights, which are the same on every engine. None: random.

    Raises:
        ValueError: If a value is out of range, or values do not fit together.
    """

    image_shape: Tuple[int, int, int]
    num_classes: int
    units: Tuple[int, ...]
    filters: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]] = None
    bottleneck: bool = False
    initial_filters: int = 32
    initial_kernel_size: int = 3
    initial_stride: int = 1
    initial_max_pool: bool = False
    data_format: str = "channels_last"
    dtype: str = "float32"
    recompute: bool = True
    stored_units: int = 2
    cross_tower_batch_norm: bool = True
    batch_norm_momentum: float = 0.9
    batch_norm_epsilon: float = 1e-3
    dropout_rate: float = 0.0
    weight_decay: float = 2e-4
    seed: Optional[int] = None

    def __post_init__(self):
        for name in ("image_shape", "units", "filters", "strides"):
            if isinstance(getattr(self, name), list):  # JSON has lists only.
                object.__setattr__(self, name, tuple(map(_plain, getattr(self, name))))
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _plain(getattr(self, field.name)))
        if self.strides is None and isinstance(self.units, tuple):
            object.__setattr__(self, "strides", (1,) + (2,) * (len(self.units) - 1))
        for name, rule, is_right in _rules(self):
            if not is_right:
                raise ValueError(f"`{name}` must be {rule}, but is {getattr(self, name)!r}.")
        before = self.initial_filters
        for stage, width in enumerate(self.stage_widths):
            if width < before:
                raise ValueError(
                    "Stages must not become narrower, since channels are only ever added, but "
                    f"stage {stage} has {width} after {before}. Change `filters` or "
                    "`initial_filters`."
                )
            before = width
        height, width, _ = self.image_shape
        if min(height, width) < self.total_stride:
            raise ValueError(
                f"Images must have a pixel for every stride, {self.total_stride} in each "
                f"direction, but `image_shape` is {self.image_shape}. Resize the images, or lower "
                "`strides`, `initial_stride` or the number of stages."
            )

    @property
    def stage_widths(self):
        """Channels that each stage gives, both halves together: a tuple of ints."""
        return tuple(width * (4 if self.bottleneck else 1) for width in self.filters)

    @property
    def total_stride(self):
        """Pixels of the image per pixel of the last stage, in each direction."""
        pooling = 2 if self.initial_max_pool else 1
        return self.initial_stride * pooling * functools.reduce(operator.mul, self.strides)

    @property
    def variable_dtype(self):
        """Type of variables, sums and statistics, a string: of 16 bits only convolutions are."""
        return "float64" if self.dtype == "float64" else "float32"

    @property
    def depth(self):
        """Layers on the longest way through the network: convolutions, and the classifier."""
        return 2 + sum(self.units) * 2 * (3 if self.bottleneck else 2)


def _plain(value):
    """Returns a scalar of NumPy as a number of Python, which JSON knows; all else as it is."""
    return value.item() if getattr(value, "shape", None) == () else value


def _rules(config):
    """Yields the name of each field, what it must be, and whether it is."""

    def whole(value, least):
        return isinstance(value, int) and not isinstance(value, bool) and value >= least

    def all_whole(values, length, least, multiple=1):
        return (
            isinstance(values, tuple)
            and len(values) == length
            and all(whole(value, least) and value % multiple == 0 for value in values)
        )

    def number(value):
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    stages = max(1, len(config.units)) if isinstance(config.units, tuple) else 1
    yield (
        "image_shape",
        "height, width and channels, three whole numbers from 1 on",
        all_whole(config.image_shape, 3, 1),
    )
    yield "num_classes", "a whole number from 2 on", whole(config.num_classes, 2)
    yield (
        "units",
        "whole numbers from 1 on, one for each stage",
        all_whole(config.units, stages, 1),
    )
    yield (
        "filters",
        f"{stages} even numbers, one for each stage, since channels are split in halves",
        all_whole(config.filters, stages, 2, multiple=2),
    )
    yield (
        "strides",
        f"{stages} whole numbers from 1 on, one for each stage",
        all_whole(config.strides, stages, 1),
    )
    yield (
        "initial_filters",
        "an even number, since channels are split in halves",
        whole(config.initial_filters, 2) and config.initial_filters % 2 == 0,
    )
    yield "stored_units", "a whole number from 0 on", whole(config.stored_units, 0)
    for name in ("initial_kernel_size", "initial_stride"):
        yield name, "a whole number from 1 on", whole(getattr(config, name), 1)
    for name in ("bottleneck", "initial_max_pool", "recompute", "cross_tower_batch_norm"):
        yield name, "True or False", isinstance(getattr(config, name), bool)
    yield (
        "data_format",
        f"one of {', '.join(DATA_FORMATS)}",
        config.data_format in DATA_FORMATS,
    )
    yield "dtype", f"one of {', '.join(DTYPES)}", config.dtype in DTYPES
    for name in ("batch_norm_momentum", "dropout_rate"):
        value = getattr(config, name)
        yield name, "a number from 0 on and below 1", number(value) and 0 <= value < 1
    epsilon, decay = config.batch_norm_epsilon, config.weight_decay
    yield "batch_norm_epsilon", "a positive number", number(epsilon) and 0 < epsilon < math.inf
    yield "weight_decay", "a number from 0 on", number(decay) and 0 <= decay < math.inf
    yield (
        "seed",
        "None or a whole number from 0 on",
        config.seed is None or whole(config.seed, 0),
    )


_CIFAR = {"image_shape": (32, 32, 3), "num_classes": 10}
_IMAGENET = {
    "image_shape": (224, 224, 3),
    "num_classes": 1000,
    "filters": (128, 256, 512, 832),
    "bottleneck": True,
    "initial_filters": 128,
    "initial_kernel_size": 7,
    "initial_stride": 2,
    "initial_max_pool": True,
    "weight_decay": 1e-4,
}
PRESETS = {
    "digits": {
        "image_shape": (8, 8, 1),
        "num_classes": 10,
        "units": (3, 3),
        "filters": (32, 64),
    },
    "cifar38": {**_CIFAR, "units": (3, 3, 3), "filters": (32, 64, 112)},
    "cifar110": {**_CIFAR, "units": (9, 9, 9), "filters": (32, 64, 128)},
    "cifar164": {**_CIFAR, "units": (9, 9, 9), "filters": (32, 64, 128), "bottleneck": True},
    # By its name it would have 56 layers, for which it takes units=(2, 2, 3, 2); these make 50.
    "imagenet56": {**_IMAGENET, "units": (2, 2, 2, 2)},
    "imagenet104": {**_IMAGENET, "units": (2, 2, 11, 2)},
}


def preset(name, **overrides):
    """Returns a published network, or one for scikit-learn's digits.

    After "The Reversible Residual Network: Backpropagation Without Storing Activations", Gomez,
    Ren, Urtasun and Grosse, NIPS 2017.

    Args:
        name: `'cifar38'`, `'cifar110'`, `'cifar164'`, `'imagenet56'`, `'imagenet104'` or
            `'digits'`.
        **overrides: Fields of `RevNetConfig` that shall be other than published, such as
            `num_classes=100`.

    Returns:
        A `RevNetConfig`.

    Raises:
        ValueError: If there is no such preset or field, or values do not fit together.
    """
    if name not in PRESETS:
        raise ValueError(f"A preset is one of {', '.join(PRESETS)}, but got {name!r}.")
    fields = [field.name for field in dataclasses.fields(RevNetConfig)]
    unknown = sorted(set(overrides) - set(fields))
    if unknown:
        raise ValueError(f"A RevNet has no {', '.join(unknown)}. Options are: {', '.join(fields)}.")
    return RevNetConfig(**{**PRESETS[name], **overrides})
