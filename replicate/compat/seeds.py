"""Gives random operations without a seed the seeds that they have on one device.

Newer versions of TensorFlow count the seeds that they give out in a graph. TensorFlow 1.15 uses the
number of the last operation as the seed, so that operations of towers would change initial weights.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from typing import Iterator

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import random_seed

# Number of operations that one device would not have, by graph in which a model is built.
_added: weakref.WeakKeyDictionary[tf.Graph, int] = weakref.WeakKeyDictionary()
# Number of operations made in `counted`, which one device has, by graph.
_counted: weakref.WeakKeyDictionary[tf.Graph, int] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def as_on_one_device(graph: tf.Graph, added: int) -> Iterator[None]:
    """A scope in which a model gets the seeds that it gets on one device.

    Args:
        graph: The graph in which the model is built.
        added: Number of operations that towers have added to the graph until now.
    """
    if hasattr(random_seed, "_graph_to_seed_dict"):  # This TensorFlow counts seeds.
        yield
        return
    _install()
    _added[graph] = added
    try:
        yield
    finally:
        del _added[graph]


@functools.lru_cache(maxsize=None)
def _install() -> None:
    """Makes TensorFlow 1.15 respect `as_on_one_device`; further calls do nothing."""
    original = random_seed.get_seed

    @functools.wraps(original)
    def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
        graph = tf.get_default_graph()
        if op_seed is None and graph.seed is not None and graph in _added:
            op_seed = graph._last_id - _added[graph]
        return original(op_seed)

    random_seed.get_seed = get_seed


@contextlib.contextmanager
def uncounted() -> Iterator[None]:
    """A scope for operations that one device would not have."""
    graph = tf.get_default_graph()
    if graph not in _added:
        yield
        return
    added, first, before = _added[graph], graph._last_id, _counted.get(graph, 0)
    try:
        yield
    finally:  # Operations of `counted` scopes inside this one are subtracted.
        counted_since = _counted.get(graph, 0) - before
        _added[graph] = added + graph._last_id - first - counted_since


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """A scope inside `uncounted`, for operations that one device has."""
    graph = tf.get_default_graph()
    first = graph._last_id if graph in _added else None
    try:
        yield
    finally:
        if first is not None:
            _counted[graph] = _counted.get(graph, 0) + graph._last_id - first
