"""Keeps values by graph, for objects that outlive graphs."""

from __future__ import annotations

import weakref
from typing import Any

import tensorflow.compat.v1 as tf

_ATTRIBUTE = "_replicate_values"


class Eager:
    """Stands for the graph in eager mode, and in functions that are called there."""


def graph_here() -> Any:
    """Returns the graph that is built here; inside a condition's body, the graph around it."""
    with tf.init_scope():
        return tf.get_default_graph()


def graph_of_variables() -> Any:
    """Returns the graph that variables made here would be in, `Eager` in eager mode."""
    with tf.init_scope():
        return Eager if tf.executing_eagerly() else tf.get_default_graph()


class GraphLocal:
    """A dictionary by graph, or by an object that lives as long, that keeps no graph alive.

    In a `WeakKeyDictionary`, a value that refers to its graph, such as a tensor, keeps the graph
    alive forever. Here each graph holds its values itself, and is freed with them.
    """

    def __contains__(self, graph: Any) -> bool:
        return self in self._values_of(graph)

    def __getitem__(self, graph: Any) -> Any:
        return self._values_of(graph)[self]

    def __setitem__(self, graph: Any, value: Any) -> None:
        self._values_of(graph)[self] = value

    def get(self, graph: Any, default: Any = None) -> Any:
        """Returns the value of `graph`, or `default` if it has none."""
        return self._values_of(graph).get(self, default)

    def setdefault(self, graph: Any, default: Any) -> Any:
        """Returns the value of `graph`, after setting it to `default` if it has none."""
        return self._values_of(graph).setdefault(self, default)

    @staticmethod
    def _values_of(graph: Any) -> Any:
        """Returns the values that `graph` holds, by `GraphLocal`, of those that still exist."""
        if not hasattr(graph, _ATTRIBUTE):
            setattr(graph, _ATTRIBUTE, weakref.WeakKeyDictionary())
        return getattr(graph, _ATTRIBUTE)
