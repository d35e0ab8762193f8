"""Lets a session take other tensors in place of those that it is asked to fetch."""

from __future__ import annotations

from typing import Any, Callable

import tensorflow.compat.v1 as tf


def take_instead(graph: tf.Graph, instead: Callable[[Any], Any]) -> None:
    """Changes what sessions fetch from a graph.

    A session asks the graph for everything that it is to fetch, whether tensors or their names, and
    so do hooks such as `LoggingTensorHook`. Tensors that are fed, and `get_tensor_by_name`, stay.

    Args:
        graph: The graph.
        instead: Function of a tensor of the graph that returns the one to fetch. It must not make
            operations, since the graph may be finalized.
    """
    find = graph.as_graph_element

    def find_fetched(obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        found = find(obj, allow_tensor, allow_operation)
        is_fetched = allow_tensor and allow_operation and isinstance(found, tf.Tensor)
        return instead(found) if is_fetched else found

    graph.as_graph_element = find_fetched
