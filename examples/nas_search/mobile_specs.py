"""The layers that mobile networks are made of.

A *bottleneck* is an inverted residual bottleneck: 1×1 expansion, depthwise convolution, projection.
An *endpoint* marks an output that a detector could take. The order of a spec's fields is the order
in which their choices are visited, see `schema`: it is part of the format of index lists. Users
find all names in `mobile_search_space_v3`, where files have them from.
"""

import collections

from examples.nas_search.basic_specs import Spec, ZeroSpec
from examples.nas_search.schema import OneOf
from examples.nas_search.schema_io import register_namedtuple
from examples.nas_search.search_space_utils import normalize_strides

# Names of activations
RELU = "relu"
RELU6 = "relu6"
SWISH6 = "swish6"
SIGMOID = "sigmoid"

# Kinds of pools
MAX = "max"
AVERAGE = "average"


@register_namedtuple("mobile_search_space_v3.ActivationSpec")
class ActivationSpec(Spec, collections.namedtuple("ActivationSpec", ["name"])):
    """An activation: `RELU`, `RELU6`, `SWISH6` or `SIGMOID`."""

    __slots__ = ()


@register_namedtuple("mobile_search_space_v3.ConvSpec")
class ConvSpec(
    Spec,
    collections.namedtuple(
        "ConvSpec", ["kernel_size", "strides", "use_batch_norm"], defaults=[True]
    ),
):
    """A convolution, without activation.

    Attributes:
        kernel_size: Int for a square kernel, pair (vertical, horizontal), or `OneOf` of them.
        strides: Int, or pair (vertical, horizontal).
        use_batch_norm: Whether it is normalized; if not, it has a bias.
    """

    __slots__ = ()


@register_namedtuple("mobile_search_space_v3.SeparableConvSpec")
class SeparableConvSpec(
    Spec,
    collections.namedtuple(
        "SeparableConvSpec", ["kernel_size", "strides", "activation"], defaults=[RELU]
    ),
):
    """A normalized depthwise convolution with activation, then a normalized linear 1×1 convolution.

    Attributes:
        kernel_size: As in `ConvSpec`.
        strides: Int, or pair of equal ints.
        activation: Name of the activation.
    """

    __slots__ = ()


@register_namedtuple("mobile_search_space_v3.DepthwiseBottleneckSpec")
class DepthwiseBottleneckSpec(
    Spec,
    collections.namedtuple(
        "DepthwiseBottleneckSpec",
        [
            "kernel_size",
            "expansion_filters",
            "use_squeeze_and_excite",
            "strides",
            "activation",
            "se_inner_activation",
            "se_gating_activation",
        ],
        defaults=[RELU, RELU, SIGMOID],
    ),
):
    """A bottleneck.

    Attributes:
        kernel_size: Of the depthwise convolution, as in `ConvSpec`.
        expansion_filters: The expanded width, int or `FilterMultiplier`, or `OneOf` of them.
        use_squeeze_and_excite: Bool, or `OneOf` of them.
        strides: Of the depthwise convolution, int, or pair of equal ints.
        activation: Name of the activation after expansion and depthwise convolution.
        se_inner_activation: Name of the activation inside the squeeze-and-excite branch.
        se_gating_activation: Name of the activation at the end of that branch.
    """

    __slots__ = ()


@register_namedtuple("mobile_specs.PoolSpec")
class PoolSpec(Spec, collections.namedtuple("PoolSpec", ["kind", "pool_size", "strides"])):
    """The largest value or the mean of each window; channels are those of the input.

    The output has sides ⌈side / stride⌉; what pads the border does not count. Not of TuNAS.

    Attributes:
        kind: `MAX` or `AVERAGE`.
        pool_size: Sides of a window, int, or pair (vertical, horizontal).
        strides: Int, or pair (vertical, horizontal).
    """

    __slots__ = ()


@register_namedtuple("mobile_search_space_v3.GlobalAveragePoolSpec")
class GlobalAveragePoolSpec(Spec, collections.namedtuple("GlobalAveragePoolSpec", [])):
    """The mean over height and width, which become 1."""

    __slots__ = ()


@register_namedtuple("mobile_search_space_v3.ResidualSpec")
class ResidualSpec(Spec, collections.namedtuple("ResidualSpec", ["layer"])):
    """Adds its input to the output of `layer`, a spec or `OneOf` of them."""

    __slots__ = ()


@register_namedtuple("mobile_search_space_v3.DetectionEndpointSpec")
class DetectionEndpointSpec(Spec, collections.namedtuple("DetectionEndpointSpec", [])):
    """Marks the output of the layer before it as an endpoint."""

    __slots__ = ()


def get_strides(spec):
    """Returns the strides of a layer.

    Args:
        spec: A layer's spec, or `OneOf` of them.

    Returns:
        Pair (vertical, horizontal). Each is an int, or None where the input's size does not matter.

    Raises:
        ValueError: If choices disagree, a residual layer's strides are not 1, or `spec` is no layer
            that makes an output.
    """
    if isinstance(spec, (ConvSpec, SeparableConvSpec, DepthwiseBottleneckSpec, PoolSpec)):
        return normalize_strides(spec.strides)
    if isinstance(spec, (ZeroSpec, ActivationSpec)):
        return (1, 1)
    if isinstance(spec, GlobalAveragePoolSpec):
        return (None, None)
    if isinstance(spec, OneOf):
        return tuple(_merge_strides(axis, spec) for axis in zip(*map(get_strides, spec.choices)))
    if isinstance(spec, ResidualSpec):
        strides = get_strides(spec.layer)
        if strides != (1, 1):
            raise ValueError(
                f"A residual layer must have strides (1, 1), but has {strides}: {spec}."
            )
        return strides
    raise ValueError(f"Only layers that make an output have strides, not {spec!r}.")


def _merge_strides(strides, oneof):
    known = sorted(set(strides) - {None})
    if len(known) > 1:
        raise ValueError(f"Stride mismatch: choices have strides {known} in {oneof!r}.")
    return known[0] if known else None
