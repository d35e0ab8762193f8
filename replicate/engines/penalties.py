"""Counts weight penalties once when the towers' losses are added up.

Where losses are means, each tower's penalty is weighted as its loss is, and the weights add up to
one. With `Reduction.SUM` each tower would add the whole penalty. There, tower i's penalties are
scaled by its share of the batch's rows as soon as they are made, whichever API makes them. On TPUs,
what is built once stands for all replicas.
"""

import contextlib

import tensorflow.compat.v1 as tf

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
    collections, raw = {}, {}

    def start():
        index, graph = 0, tf.get_default_graph()

        def share(penalty):
            return penalty * row_weights.of(index, penalty.dtype.base_dtype)

        collections[index] = _Scaled(graph.get_collection(_KEY), share, raw)
        graph_lib.set_collection(graph, _KEY, collections[index])

    def scale(penalty):
        return collections[0].scale(penalty)

    with keras.regularizers_wrapped(scale):
        try:
            yield start
        finally:
            if 0 in collections:
                graph_lib.set_collection(tf.get_default_graph(), _KEY, list(collections[0]))


class _Scaled(list):
    """A tower's collection of penalties, which scales what is added to it.

    Args:
        items: What is in the collection already.
        share: Function from a penalty to this tower's share of it.
        raw: Dictionary from the id of any tower's scaled penalty to that and the penalty itself.
            What a rendezvous makes is scaled in tower 0 and then enters the others' collections.
    """

    def __init__(self, items, share, raw):
        super().__init__(items)
        self._share = share
        self._raw = raw
        self._own = set()  # ids of what was scaled here

    def scale(self, penalty):
        """Returns this tower's share of `penalty`, None for None."""
        if penalty is None or id(penalty) in self._own:
            return penalty
        _, penalty = self._raw.get(id(penalty), (None, penalty))
        penalty = tf.convert_to_tensor(penalty)
        scaled = self._share(penalty)
        self._raw[id(scaled)] = scaled, penalty
        self._own.add(id(scaled))
        return scaled

    def append(self, penalty):
        super().append(self.scale(penalty))

    def extend(self, penalties):
        super().extend(self.scale(penalty) for penalty in penalties)
