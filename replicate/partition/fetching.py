"""Gives code outside of the `model_fn` the values that towers have computed, joined.

The originals of operations in towers would compute them again, maybe after the step has updated
the weights: a reference variable, or a table in which rows are looked up, is read when they run.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

import tensorflow.compat.v1 as tf

from replicate.compat import fetches, partitioning
from replicate.compat import graph as graph_lib


def give_joined(now: Callable[[Any], Any], joined: Mapping[Any, Any]) -> tf.train.SessionRunHook:
    """Lets sessions fetch joined tensors of the default graph in place of their originals.

    Args:
        now: Function of a tensor of the model that returns what has replaced it, or itself.
        joined: Whole values, by references of tensors.

    Returns:
        A hook. It also gives them to operations that earlier hooks add to the graph.
    """

    def instead(tensor: Any) -> Any:
        found = now(tensor)
        return joined.get(graph_lib.reference(found), found)

    graph = tf.get_default_graph()
    fetches.take_instead(graph, instead)
    return _TakeJoined(instead, graph_lib.last_id(graph))


class _TakeJoined(tf.train.SessionRunHook):
    """Reconnects operations that were added to the graph.

    Args:
        instead: Function of a tensor that returns the one to take.
        last: The number of the last operation that keeps its inputs.
    """

    def __init__(self, instead: Callable[[Any], Any], last: int) -> None:
        self._instead = instead
        self._last = last

    def begin(self) -> None:
        """Reconnects the operations that are new."""
        graph = tf.get_default_graph()
        for operation in graph.get_operations():
            if graph_lib.id_of(operation) <= self._last:
                continue
            for index, tensor in enumerate(list(operation.inputs)):
                found = self._instead(tensor)
                if found is not tensor:
                    partitioning.take(operation, index, found)
        self._last = graph_lib.last_id(graph)
