"""Exact costs of networks: multiply-accumulates and parameters.

*MAdds* are the multiply-accumulates of one image: those of all convolutions, among them the fully
connected layers of squeeze-and-excite and the classifier. Batch norm, activations, biases, pools
and sums are not counted, as usual in the literature. *Parameters* are the trainable weights of the
network trained alone: kernels, biases, and scale and offset of batch norm.

Costs are int64 arrays [n], one entry per network, see `network_batch`.
"""

from typing import List, NamedTuple, Tuple

import numpy as np

from examples.nas_search import mobile_specs as specs
from examples.nas_search.basic_specs import FilterMultiplier, ZeroSpec
from examples.nas_search.costs import network_batch
from examples.nas_search.search_space_utils import normalize_strides


class LayerCost(NamedTuple):
    """The cost of one layer of a network."""

    path: str  # as in the spec, such as `blocks/2/layers/0`, or `classifier`
    output_shape: Tuple[int, int, int]  # height, width, channels
    madds: int
    params: int


class NetworkCost(NamedTuple):
    """The cost of a network, the sum over its layers."""

    madds: int
    params: int
    layers: List[LayerCost]


class _Size(NamedTuple):
    """The size of a layer's output in n networks."""

    height: int
    width: int
    channels: np.ndarray  # int64 [n]

    @property
    def pixels(self):
        return self.height * self.width


class _Cost(NamedTuple):
    """The cost of a layer in n networks, or an int where it is the same in all."""

    madds: np.ndarray
    params: np.ndarray

    def __add__(self, other):
        return _Cost(self.madds + other.madds, self.params + other.params)


_FREE = _Cost(0, 0)


def network_cost(model_spec, input_shape, num_classes, indices=None):
    """Computes what a network costs.

    Args:
        model_spec: A `ConvTowerSpec`.
        input_shape: Height, width and channels of an image.
        num_classes: Number of outputs of the classifier.
        indices: The option of each choice in visiting order. None if each has but one.

    Returns:
        A `NetworkCost`, of ints.

    Raises:
        ValueError: If `indices` does not fit the space, or a layer's spec is unknown or does not
            fit its input.
    """
    spec = network_batch.choose(model_spec, None if indices is None else [indices])
    layers = [
        LayerCost(
            path,
            (size.height, size.width, int(size.channels[0])),
            *(int(np.max(part)) for part in cost),
        )
        for path, size, cost in _layers(spec, input_shape, num_classes)
    ]
    madds, params = (sum(getattr(layer, each) for layer in layers) for each in _Cost._fields)
    return NetworkCost(madds, params, layers)


def costs_of_many(model_spec, index_lists, input_shape, num_classes):
    """Computes what n networks of a space cost.

    Args:
        model_spec: A `ConvTowerSpec`.
        index_lists: Int array [n, C].
        input_shape: Height, width and channels of an image.
        num_classes: Number of outputs of the classifier.

    Returns:
        Pair of int64 arrays [n]: MAdds and parameters.

    Raises:
        ValueError: As `network_cost`.
    """
    spec = network_batch.choose(model_spec, index_lists)
    totals = np.zeros([2, len(index_lists)], np.int64)
    for _, _, cost in _layers(spec, input_shape, num_classes):
        totals += np.stack(np.broadcast_arrays(*cost, totals[0])[:2])
    return totals[0], totals[1]


def layers_of_many(model_spec, index_lists):
    """Returns how many layers of n networks are not skipped, int64 [n]; as `costs_of_many`."""
    spec = network_batch.choose(model_spec, index_lists)
    layers = [layer for block in spec.blocks for layer in block.layers]
    return sum(_is_there(layer) for layer in layers) + np.zeros(len(index_lists), np.int64)


def _is_there(layer):
    """Returns 0 for a skipped layer, else 1: int64 [n], or an int where it is the same in all."""
    if isinstance(layer, network_batch.Chosen):
        return _pick([_is_there(option) for option in layer.options], layer.index)
    if isinstance(layer, specs.ResidualSpec):
        return _is_there(layer.layer)
    return 0 if isinstance(layer, ZeroSpec) else 1


def _layers(spec, input_shape, num_classes):
    """Yields path, `_Size` of the output and `_Cost` for each layer and the classifier."""
    height, width, channels = input_shape
    size = _Size(height, width, np.array([channels], np.int64))
    for block_number, block in enumerate(spec.blocks):
        filters = _values(block.filters)
        for number, layer in enumerate(block.layers):
            path = f"blocks/{block_number}/layers/{number}"
            try:
                size, cost = _layer(layer, size, filters, spec.filters_base)
            except ValueError as error:
                raise ValueError(f"{error} [Layer {path}.]") from error
            yield path, size, cost
    # The classifier is a 1×1 convolution before the last pool.
    cost = _convolution(1, size, size, num_classes) + _Cost(0, num_classes)
    yield "classifier", _Size(1, 1, np.array([num_classes])), cost


def _layer(layer, size, filters, base):
    """Returns `_Size` of the output and `_Cost` of a layer with an input of `_Size` size."""
    if isinstance(layer, network_batch.Chosen):
        return _chosen_layer(layer, size, filters, base)
    if isinstance(layer, specs.ResidualSpec):
        output, cost = _layer(layer.layer, size, filters, base)
        if output[:2] != size[:2] or np.any(output.channels != size.channels):
            raise ValueError(
                "A residual layer must have an output of the size of its input, but makes "
                f"{_text(output)} of {_text(size)}. Use it only after a layer of the same block, "
                "with stride 1."
            )
        return size, cost
    if isinstance(layer, ZeroSpec):
        return size._replace(channels=filters), _FREE
    if isinstance(layer, (specs.ActivationSpec, specs.DetectionEndpointSpec)):
        return size, _FREE
    if isinstance(layer, specs.PoolSpec):
        return _strided(size, layer.strides), _FREE
    if isinstance(layer, specs.GlobalAveragePoolSpec):
        return size._replace(height=1, width=1), _FREE
    if isinstance(layer, specs.ConvSpec):
        output = _strided(size, layer.strides)._replace(channels=filters)
        cost = _convolution(_area(layer.kernel_size), size, output, filters)
        return output, cost + _Cost(0, (2 if layer.use_batch_norm else 1) * filters)
    if isinstance(layer, specs.SeparableConvSpec):
        return _separable(_area(layer.kernel_size), layer.strides, size, filters)
    if isinstance(layer, specs.DepthwiseBottleneckSpec):
        return _bottleneck(layer, size, filters, base)
    raise ValueError(
        f"The cost of a layer of type {type(layer).__name__} is not known: {layer!r}. Add its "
        "formula to network_cost.py."
    )


def _chosen_layer(layer, size, filters, base):
    """Computes all options for all networks, then picks."""
    outputs, costs = zip(*(_layer(option, size, filters, base) for option in layer.options))
    if len({output[:2] for output in outputs}) > 1:
        raise ValueError(
            "All options of a choice must have outputs of the same height and width, but they make "
            f"{', '.join(map(_text, outputs))}. Give them the same strides."
        )
    channels = _pick([output.channels for output in outputs], layer.index)
    madds, params = (_pick(parts, layer.index) for parts in zip(*costs))
    return outputs[0]._replace(channels=channels), _Cost(madds, params)


def _bottleneck(layer, size, filters, base):
    expanded = _expanded(layer.expansion_filters, size.channels, base)
    inner = size._replace(channels=expanded)
    cost = _convolution(1, size, inner, expanded) + _Cost(0, 2 * expanded)
    area = _area(layer.kernel_size)
    output, separable_cost = _separable(area, layer.strides, inner, filters)
    cost += separable_cost
    # A fully connected layer to the hidden units and one back, with biases.
    hidden = _make_divisible(0.25 * expanded, base)
    is_on = np.asarray(_values(layer.use_squeeze_and_excite), np.int64)
    weights = 2 * expanded * hidden
    return output, cost + _Cost(is_on * weights, is_on * (weights + hidden + expanded))


def _separable(area, strides, size, filters):
    """Depthwise convolution and 1×1 convolution, each with batch norm."""
    inner = _strided(size, strides)
    kernels = area * size.channels
    cost = _Cost(inner.pixels * kernels, kernels + 2 * size.channels)
    output = inner._replace(channels=filters)
    return output, cost + _convolution(1, inner, output, filters) + _Cost(0, 2 * filters)


def _convolution(area, size, output, filters):
    """The kernel of a convolution from `size` to `output`; `area` is as of `_area`."""
    weights = area * size.channels * filters
    return _Cost(output.pixels * weights, weights)


def _strided(size, strides):
    vertical, horizontal = normalize_strides(strides)
    return size._replace(height=-(-size.height // vertical), width=-(-size.width // horizontal))


def _area(kernel_size):
    """Returns how many pixels the kernel has in networks: int64 [n], or the number in all."""
    if isinstance(kernel_size, network_batch.Chosen):
        return _pick([_area(option) for option in kernel_size.options], kernel_size.index)
    vertical, horizontal = normalize_strides(kernel_size)
    return vertical * horizontal


def _values(value):
    """Returns the numbers that networks have: int64 or bool [n], or the number that all have."""
    if isinstance(value, network_batch.Chosen):
        return _pick(value.options, value.index)
    return value


def _expanded(value, channels, base):
    """Returns the expanded width, int64 [n]."""
    if isinstance(value, network_batch.Chosen):
        options = [_expanded(option, channels, base) for option in value.options]
        return _pick(options, value.index)
    if isinstance(value, FilterMultiplier):
        multiples = np.trunc(channels * value.scale / base + 0.5)
        return np.maximum(base, base * multiples).astype(np.int64)
    return np.array([value], np.int64)


def _make_divisible(value, divisor):
    """Does as `search_space_utils.make_divisible`, on arrays."""
    rounded = np.maximum(divisor, np.trunc(value + divisor / 2) // divisor * divisor)
    return (rounded + divisor * (rounded < 0.9 * value)).astype(np.int64)


def _pick(options, index):
    """Returns for each network k entry k of its option's array; options broadcast to [n]."""
    options = np.stack([np.broadcast_to(option, index.shape) for option in options])
    return options[index, np.arange(len(index))]


def _text(size):
    channels = "|".join(map(str, np.unique(size.channels)))
    return f"{size.height}×{size.width}×{channels}"
