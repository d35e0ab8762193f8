"""Layers made of layers."""

import functools

import tensorflow.compat.v1 as tf

from examples.nas_search.rematlib import tensors
from examples.nas_search.rematlib.base import Layer


class Sequential(Layer):
    """Applies one layer after the other.

    Args:
        layers: List of layers.
        aux_outputs: List of those of them whose outputs are wanted as well, or None.

    Returns:
        When applied: the output of the last layer. With `aux_outputs`, even an empty list, a pair
        of that and the list of their outputs; of a layer that is used twice, the later one.

    Raises:
        ValueError: If one of `aux_outputs` is none of the layers.
    """

    def __init__(self, layers, aux_outputs=None):
        super().__init__()
        self._layers_in_order = [self.track(layer) for layer in layers]
        self._aux_outputs = aux_outputs
        for aux in aux_outputs or []:
            if not any(aux is layer for layer in layers):
                raise ValueError(
                    f"`aux_outputs` must be among the layers of the Sequential, but {aux!r} is "
                    f"none of {layers}. Add it to `layers`."
                )

    def _setup(self, input_shape):
        return functools.reduce(lambda s, layer: layer.build(s), self._layers_in_order, input_shape)

    def _call(self, inputs, run):
        by_layer = {}
        for layer in self._layers_in_order:
            inputs = by_layer[id(layer)] = layer(inputs, run)
        if self._aux_outputs is None:
            return inputs
        return inputs, [by_layer[id(layer)] for layer in self._aux_outputs]


class _Parallel(Layer):
    """Combines the outputs of layers with the same input."""

    def __init__(self, layers):
        super().__init__()
        self._branches = [self.track(layer) for layer in layers]

    def _setup(self, input_shape):
        shapes = [layer.build(input_shape) for layer in self._branches]
        return functools.reduce(tensors.merge_shapes_with_broadcast, shapes)

    def _combine(self, a, b):
        """Combines two outputs."""
        raise NotImplementedError(f"{type(self).__name__} must define `_combine`.")

    def _call(self, inputs, run):
        return functools.reduce(self._combine, [layer(inputs, run) for layer in self._branches])


class ParallelSum(_Parallel):
    """The sum of the outputs of layers with the same input; where a size is 1, it is repeated.

    Args:
        layers: List of at least one layer.
    """

    def _combine(self, a, b):
        return tf.add(a, b)


class ParallelProduct(_Parallel):
    """The product of the outputs of layers with the same input; where a size is 1, it is repeated.

    Args:
        layers: List of at least one layer.
    """

    def _combine(self, a, b):
        return tf.multiply(a, b)
