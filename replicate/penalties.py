"""Counts weight penalties once when the towers' losses are added up.

Where losses are means, each tower's penalty is weighted as its loss is, and the weights add up to
one. With `Reduction.SUM` each tower would add the whole penalty. There, tower i's penalties are
scaled by its share of the batch's rows as soon as they are made, whichever API makes them.
"""

import contextlib

import tensorflow.compat.v1 as tf

from replicate import rendezvous
from replicate.compat import graph as graph_lib
from replicate.compat import keras

_KEY = tf.GraphKeys.REGULARIZATION_LOSSES


@contextlib.contextmanager
def shared(row_weights):
    """A scope in which the towers that are built each make their share of every weight penalty.

    Args:
        row_weights: The `Weights` nᵢ / n of the towers.

    Yields:
        Function without arguments that each tower calls before it builds its model.
    """
    scaled = {}

    def start():
        index, graph = rendezvous.tower_index(), tf.get_default_graph()
        penalties = graph.get_collection(_KEY)
        scaled[index] = _Scaled(penalties, lambda dtype: row_weights.of(index, dtype))
        graph_lib.set_collection(graph, _KEY, scaled[index])

    def scale(penalty):
        return scaled[rendezvous.tower_index()].scale(penalty)

    # Keras is wrapped once for all towers: scopes that parked towers leave open do not nest.
    with keras.regularizers_wrapped(scale):
        try:
            yield start
        finally:
            if 0 in scaled:
                graph_lib.set_collection(tf.get_default_graph(), _KEY, list(scaled[0]))


class _Scaled(list):
    """A collection that scales what is added to it, unless that was done when it was made."""

    def __init__(self, items, share):
        super().__init__(items)
        self._share = share
        self._made = []

    def scale(self, penalty):
        """Returns this tower's share of `penalty`, None for None."""
        if penalty is None or any(penalty is made for made in self._made):
            return penalty
        penalty = tf.convert_to_tensor(penalty)
        self._made.append(penalty * self._share(penalty.dtype.base_dtype))
        return self._made[-1]

    def append(self, penalty):
        super().append(self.scale(penalty))

    def extend(self, penalties):
        super().extend(self.scale(penalty) for penalty in penalties)
