"""Seeds of random operations that have none of their own: those of one device.

Newer TensorFlows count the seeds that they give out in a graph. TensorFlow 1.15 takes the number of
the last operation, so that whatever towers add to a graph would change initial weights.
"""

from __future__ import annotations

import contextlib
import functools
import weakref

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import random_seed

# By graph in which a model is built: how many operations one device would not have there.
_added: weakref.WeakKeyDictionary[tf.Graph, int] = weakref.WeakKeyDictionary()
# And how many it would have, of those that were made in `counted`.
_counted: weakref.WeakKeyDictionary[tf.Graph, int] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def of_one_device(graph, added):
    """A scope in which a model gets the seeds that it would get alone.

    Args:
        graph: The graph in which it is built.
        added: How many operations towers have added to it until now.
    """
    if hasattr(random_seed, "_graph_to_seed_dict"):  # They are counted.
        yield
        return
    _install()
    _added[graph] = added
    try:
        yield
    finally:
        del _added[graph]


@functools.lru_cache(maxsize=None)
def _install():
    """Makes TensorFlow 1.15 heed `of_one_device`. Does so once."""
    original = random_seed.get_seed

    @functools.wraps(original)
    def get_seed(op_seed):
        graph = tf.get_default_graph()
        if op_seed is None and graph.seed is not None and graph in _added:
            op_seed = graph._last_id - _added[graph]
        return original(op_seed)

    random_seed.get_seed = get_seed


@contextlib.contextmanager
def uncounted():
    """A scope whose operations one device would not have."""
    graph = tf.get_default_graph()
    if graph not in _added:
        yield
        return
    added, first, before = _added[graph], graph._last_id, _counted.get(graph, 0)
    try:
        yield
    finally:  # Scopes in this one included.
        counted_since = _counted.get(graph, 0) - before
        _added[graph] = added + graph._last_id - first - counted_since


@contextlib.contextmanager
def counted():
    """A scope in `uncounted` whose operations one device has."""
    graph = tf.get_default_graph()
    first = graph._last_id if graph in _added else None
    try:
        yield
    finally:
        if first is not None:
            _counted[graph] = _counted.get(graph, 0) + graph._last_id - first
