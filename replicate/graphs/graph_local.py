"""Values by graph, for objects that outlive graphs."""

import weakref

import tensorflow.compat.v1 as tf

_ATTRIBUTE = "_replicate_values"


class Eager:
    """In place of a graph, in eager mode and in functions that are called there."""


def graph_here():
    """Returns the graph that is built here; in the body of a condition, the one around it."""
    with tf.init_scope():
        return tf.get_default_graph()


def graph_of_variables():
    """Returns the graph that variables made here would be in, `Eager` in eager mode."""
    with tf.init_scope():
        return Eager if tf.executing_eagerly() else tf.get_default_graph()


class GraphLocal:
    """A dictionary by graph, or by what lives as long, that keeps no graph alive.

    In a `WeakKeyDictionary`, a value that refers to its graph, as one that holds a tensor does,
    keeps it forever. Here each graph keeps its own values, and dies with them.
    """

    def __contains__(self, graph):
        return self in self._values_of(graph)

    def __getitem__(self, graph):
        return self._values_of(graph)[self]

    def __setitem__(self, graph, value):
        self._values_of(graph)[self] = value

    def get(self, graph, default=None):
        """Returns the value of `graph`, or `default` if it has none."""
        return self._values_of(graph).get(self, default)

    def setdefault(self, graph, default):
        """Returns the value of `graph`, which is `default` from now on if it has none."""
        return self._values_of(graph).setdefault(self, default)

    @staticmethod
    def _values_of(graph):
        """Returns what `graph` keeps, by the `GraphLocal` that it is of, if that is still there."""
        if not hasattr(graph, _ATTRIBUTE):
            setattr(graph, _ATTRIBUTE, weakref.WeakKeyDictionary())
        return getattr(graph, _ATTRIBUTE)
