"""Coupled cost features: vectors on which the cost of a network depends linearly.

The cost of a layer depends on its own choices and on the widths of its input and output. Its
*features* are therefore a product: one for every combination of output width, input width and
options of the layer, which is 1 for the combination that the network has and 0 for all others. A
weight per combination, the cost of that layer there, gives the cost of the network. After TuNAS
(Bender, Liu et al., CVPR 2020).

With masks that are not one-hot, features are multilinear in them: they give the mean cost of
networks drawn with the masks' entries as probabilities.

The features of a drawn network are a tensor, computed where the search runs. Those of many networks
are positions of ones: each layer's features are a *one-hot vector*, and so are all its factors.
"""

import functools
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from examples.nas_search import schema
from examples.nas_search.costs import network_batch


class OneHots(NamedTuple):
    """A one-hot vector for each of n networks."""

    size: int  # elements of a vector
    index: np.ndarray  # int64 [n], where the one is


def get_mask(oneof):
    """Returns the mask of a choice, float32 [options]; [1] for an only option without one.

    Raises:
        ValueError: If there are several options and no mask.
    """
    if oneof.mask is not None:
        return oneof.mask
    if len(oneof.choices) > 1:
        raise ValueError(
            f"Among several options one must have been drawn, but {oneof!r} has no mask. Draw with "
            "`controller.independent_sample` or choose with `prune_model_spec`."
        )
    return tf.ones([1])


def kron(x, y):
    """Returns all products of an element of x and one of y, a vector; those of x[0] come first."""
    return tf.reshape(x[:, None] * y[None, :], [-1])


def coupled_tf_features(spec):
    """Computes the cost features of a drawn network.

    Args:
        spec: A `ConvTowerSpec` in which every open choice has a mask.

    Returns:
        Float32 [features]; [1.0] if nothing in the space can be chosen.

    Raises:
        ValueError: If a choice is open and without mask, or `spec` holds what is no structure.
    """
    features = _coupled_features(spec, _Tensors)
    return tf.concat(features, axis=0) if features else tf.ones([1])


def feature_positions(spec, index_lists):
    """Computes the cost features of many networks, as the positions of their ones.

    Args:
        spec: A `ConvTowerSpec`.
        index_lists: Int array [n, C], see `network_batch`.

    Returns:
        Pair of the number of features and an int64 array [n, L]: the positions of the L ones among
        the features of each network, in ascending order.

    Raises:
        ValueError: If `index_lists` does not fit the space.
    """
    features = _coupled_features(network_batch.choose(spec, index_lists), _Positions)
    if not features:
        return 1, np.zeros([len(index_lists), 1], np.int64)
    sizes = [each.size for each in features]
    starts = np.cumsum([0, *sizes[:-1]])
    return sum(sizes), np.stack([each.index for each in features], axis=1) + starts


def _coupled_features(spec, algebra):
    """Returns the features of each layer that has any, as vectors of an algebra."""
    features = []
    input_width = None
    for block in spec.blocks:
        width = algebra.choice(block.filters)
        for layer in block.layers:
            factors = [width, input_width, _layer_features(layer, algebra)]
            coupled = _product([each for each in factors if each is not None], algebra)
            if coupled is not None and algebra.size(coupled) > 1:
                features.append(coupled)
            input_width = width
    return features


def _layer_features(node, algebra):
    """Returns the features of a structure, None for the single feature of what is fixed."""
    if not isinstance(node, algebra.choice_type):
        factors = [_layer_features(child, algebra) for _, child in schema.children(node)]
        return _product([each for each in factors if each is not None], algebra)
    return algebra.sum(node, [_layer_features(option, algebra) for option in algebra.options(node)])


def _product(vectors, algebra):
    return functools.reduce(algebra.kron, vectors) if vectors else None


class _Tensors:
    """Vectors of a drawn network: tensors."""

    choice_type = schema.OneOf
    choice = staticmethod(get_mask)
    kron = staticmethod(kron)

    @staticmethod
    def options(oneof):
        return oneof.choices

    @staticmethod
    def size(vector):
        return vector.shape.num_elements()

    @staticmethod
    def sum(oneof, vectors):
        """Concatenates the options' vectors, each times its mask entry."""
        if all(vector is None for vector in vectors):
            return get_mask(oneof)
        mask = tf.unstack(get_mask(oneof), num=len(vectors))
        parts = [m[None] if vector is None else m * vector for m, vector in zip(mask, vectors)]
        return tf.concat(parts, axis=0)


class _Positions:
    """Vectors of n networks: `OneHots`."""

    choice_type = network_batch.Chosen

    @staticmethod
    def choice(chosen):
        return OneHots(len(chosen.options), chosen.index)

    @staticmethod
    def kron(x, y):
        return OneHots(x.size * y.size, x.index * y.size + y.index)

    @staticmethod
    def options(chosen):
        return chosen.options

    @staticmethod
    def size(vector):
        return vector.size

    @staticmethod
    def sum(chosen, vectors):
        """Concatenates the options' vectors, in which only the chosen one's has its one."""
        sizes = [1 if vector is None else vector.size for vector in vectors]
        starts = np.cumsum([0, *sizes[:-1]])
        zeros = np.zeros_like(chosen.index)
        inner = np.stack([zeros if vector is None else vector.index for vector in vectors])
        index = starts[chosen.index] + inner[chosen.index, np.arange(len(chosen.index))]
        return OneHots(sum(sizes), index)
