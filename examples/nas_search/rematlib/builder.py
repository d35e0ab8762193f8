"""From the specs of layers to layers."""

from examples.nas_search import mobile_specs as specs
from examples.nas_search.basic_specs import ZeroSpec
from examples.nas_search.rematlib import layers as lib
from examples.nas_search.rematlib import widths
from examples.nas_search.schema import OneOf
from examples.nas_search.search_space_utils import is_zero

_ACTIVATIONS = {
    specs.RELU: lib.ReLU,
    specs.RELU6: lib.ReLU6,
    specs.SWISH6: lib.Swish6,
    specs.SIGMOID: lib.Sigmoid,
}
_POOLS = {specs.MAX: lib.MaxPool, specs.AVERAGE: lib.AveragePool}


class Builder:
    """Makes layers of specs.

    Methods take `width`, the `Width` of the input, None for images, and `filters`, the `Width` of
    the block's outputs.

    Args:
        filters_base: As in `ConvTowerSpec`.
        convolution: Dict of arguments of `Conv2D`.
        depthwise_convolution: Dict of arguments of `DepthwiseConv2D`.
        batch_norm: Dict of arguments of `BatchNorm`.
        slice_widths: As in `get_model`.
    """

    def __init__(self, filters_base, convolution, depthwise_convolution, batch_norm, slice_widths):
        self._base = filters_base
        self._convolution = convolution
        self._depthwise_convolution = depthwise_convolution
        self._batch_norm = batch_norm
        self._slice_widths = slice_widths

    def layer(self, spec, width, filters):
        """Returns a spec's layer and the `Width` of its output."""
        if isinstance(spec, OneOf):
            return self._choice(spec, width, filters)
        if isinstance(spec, specs.ResidualSpec):
            return self._residual(spec, width, filters)
        if isinstance(spec, ZeroSpec):
            shape = [None, None, None, filters.largest]
            return lib.Zeros(shape, self._channels(filters)), filters
        if isinstance(spec, specs.ActivationSpec):
            return _activation(spec.name), width
        if isinstance(spec, specs.PoolSpec):
            return _pool(spec), width
        if isinstance(spec, specs.GlobalAveragePoolSpec):
            return lib.GlobalAveragePool(keepdims=True), width
        if isinstance(spec, specs.ConvSpec):
            return self._normalized_conv(spec, width, filters), filters
        if isinstance(spec, specs.SeparableConvSpec):
            activation = spec.activation
            layers = [
                self._depthwise(spec.kernel_size, spec.strides, width, activation),
                *self._pointwise(width, filters),
            ]
            return lib.Sequential(layers), filters
        if isinstance(spec, specs.DepthwiseBottleneckSpec):
            return self._bottleneck(spec, width, filters), filters
        raise ValueError(
            f"Only specs of layers can be made layers, not a {type(spec).__name__}: {spec!r}. Add "
            "it to mobile_model_v3.py, and its cost to network_cost.py."
        )

    def conv(self, kernel_size, strides, width, filters, **kwargs):
        """Returns a convolution, masked or sliced if one of its widths is drawn."""
        kwargs = {"strides": strides, **self._convolution, **kwargs}
        input_mask = None if width is None else width.mask
        if input_mask is None and filters.mask is None:
            return lib.Conv2D(filters.largest, kernel_size, **kwargs)
        counts = (width and width.count, filters.count) if self._slice_widths else None
        return lib.MaskedConv2D(kernel_size, input_mask, filters.full_mask(), counts, **kwargs)

    def _choice(self, spec, width, filters):
        specs.get_strides(spec)  # Raises if they differ.
        options, option_widths = zip(*(self.layer(each, width, filters) for each in spec.choices))
        if not all(_same(option_widths[0], each) for each in option_widths):
            raise ValueError(
                "All options of a choice must have outputs of the same number of channels, but "
                f"{spec!r} mixes the input's with the block's."
            )
        out_width = option_widths[0]
        return lib.maybe_switch_v2(spec.mask, options, self._channels(out_width)), out_width

    def _residual(self, spec, width, filters):
        specs.get_strides(spec)  # Raises if it has any.
        inner, inner_width = self.layer(spec.layer, width, filters)
        if not _same(width, inner_width):
            raise ValueError(
                "A residual layer must have as many output channels as inputs. Use it only after a "
                "layer of the same block that has the block's width."
            )
        if all(map(is_zero, getattr(spec.layer, "choices", [spec.layer]))):
            return lib.Identity(), width
        return lib.ParallelSum([inner, lib.Identity()]), width

    def _normalized_conv(self, spec, width, filters):
        def make(kernel_size):
            if not spec.use_batch_norm:
                return self.conv(kernel_size, spec.strides, width, filters, use_bias=True)
            conv = self.conv(kernel_size, spec.strides, width, filters)
            return lib.Sequential([conv, self._normalize(filters)])

        return self._switch(spec.kernel_size, make, filters)

    def _bottleneck(self, spec, width, filters):
        expanded = widths.choose(spec.expansion_filters, width, self._base)

        def make_squeeze_and_excite(is_used):
            return self._squeeze_and_excite(spec, expanded) if is_used else lib.Identity()

        layers = [
            *self._pointwise(width, expanded),
            _activation(spec.activation),
            self._depthwise(spec.kernel_size, spec.strides, expanded, spec.activation),
            self._switch(spec.use_squeeze_and_excite, make_squeeze_and_excite, expanded),
            *self._pointwise(expanded, filters),
        ]
        return lib.Sequential(layers)

    def _depthwise(self, kernel_sizes, strides, width, activation):
        def make(kernel_size):
            kwargs = {"strides": strides, **self._depthwise_convolution}
            if width is None or width.mask is None:
                conv = lib.DepthwiseConv2D(kernel_size, **kwargs)
            else:
                count = self._channels(width)
                conv = lib.MaskedDepthwiseConv2D(kernel_size, width.mask, count, **kwargs)
            return lib.Sequential([conv, self._normalize(width), _activation(activation)])

        return self._switch(kernel_sizes, make, width)

    def _squeeze_and_excite(self, spec, width):
        hidden = widths.fraction(width, 0.25, self._base)
        gate = lib.Sequential(
            [
                lib.GlobalAveragePool(keepdims=True),
                self.conv(1, 1, width, hidden, use_bias=True),
                _activation(spec.se_inner_activation),
                self.conv(1, 1, hidden, width, use_bias=True),
                _activation(spec.se_gating_activation),
            ]
        )
        return lib.ParallelProduct([lib.Identity(), gate])

    def _pointwise(self, width, filters):
        return [self.conv(1, 1, width, filters), self._normalize(filters)]

    def _normalize(self, width):
        if width is None or width.mask is None:
            return lib.BatchNorm(**self._batch_norm)
        epsilon, count = self._batch_norm["epsilon"], self._channels(width)
        return lib.MaskedStatelessBatchNorm(width.mask, epsilon, count)

    def _switch(self, choice, make, width):
        """Returns the layer of a value or a `OneOf` of values, each made by `make`.

        Its outputs have the `Width` `width`, None for that of the images.
        """
        if not isinstance(choice, OneOf):
            return make(choice)
        options = [make(value) for value in choice.choices]
        mask = choice.mask if len(options) > 1 else None
        return lib.maybe_switch_v2(mask, options, self._channels(width))

    def _channels(self, width):
        """Returns the number of channels that tensors of a width have in a run; None: always."""
        is_sliced = self._slice_widths and width is not None and width.mask is not None
        return width.count if is_sliced else None


def _activation(name):
    if name not in _ACTIVATIONS:
        raise ValueError(f"An activation must be one of {list(_ACTIVATIONS)}, but is {name!r}.")
    return _ACTIVATIONS[name]()


def _pool(spec):
    if spec.kind not in _POOLS:
        raise ValueError(f"A pool must be one of {list(_POOLS)}, but is {spec.kind!r}.")
    return _POOLS[spec.kind](spec.pool_size, spec.strides)


def _same(width, other):
    if width is None or other is None:
        return width is other
    return width is other or (width.mask is None and other.mask is None and width == other)
