"""Counts weight penalties once when the losses of towers, or of TPU cores, are added up.

Where losses are means, penalties are averaged with them. With `Reduction.SUM` each tower would add
the whole penalty. There, each makes its share of it, whichever API makes the penalty.
"""

import contextlib

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat import keras
from replicate.partition import current

_KEY = tf.GraphKeys.REGULARIZATION_LOSSES


@contextlib.contextmanager
def shared(number):
    """A scope in which a model makes one of `number` equal shares of every weight penalty."""
    if number == 1:
        yield
        return
    graph = tf.get_default_graph()
    scaled = _Scaled(graph.get_collection(_KEY), number)
    graph_lib.set_collection(graph, _KEY, scaled)
    with keras.regularizers_wrapped(scaled.scale):
        try:
            yield
        finally:
            graph_lib.set_collection(graph, _KEY, list(scaled))


class _Scaled(list):
    """The collection of penalties, which scales each that is added to it, once.

    Args:
        items: Penalties that are in the collection already.
        number: How many shares there are.
    """

    def __init__(self, items, number):
        super().__init__(items)
        self._number = number
        self._own = set()  # ids of what was scaled here

    def scale(self, penalty):
        """Returns the share of `penalty`, None for None; in a merge function, all of it."""
        program = current()
        merging = program is not None and program.merging
        if penalty is None or merging or id(penalty) in self._own:
            return penalty
        penalty = tf.convert_to_tensor(penalty)
        scaled = penalty * tf.constant(1 / self._number, penalty.dtype.base_dtype)
        self._own.add(id(scaled))
        return scaled

    def append(self, penalty):
        super().append(self.scale(penalty))

    def extend(self, penalties):
        super().extend(self.scale(penalty) for penalty in penalties)
