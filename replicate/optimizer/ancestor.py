"""Other members of `tf.contrib.estimator.TowerOptimizer`, for code that uses them."""

from __future__ import annotations

from typing import Any, NoReturn

from replicate.engines import context
from replicate.graphs import GraphLocal, graph_here

_used = GraphLocal()


class GraphState:
    """The state of the towers of a graph, which are all built in one call.

    The ancestor had one state for each tower.

    Attributes:
        is_the_last_tower: True.
    """

    is_the_last_tower = True

    @property
    def number_of_towers(self) -> int:
        """The number of towers."""
        return context.engine().size

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"`model_fn` is called once for all towers, so the state of a graph has no {name!r}, "
            "only `is_the_last_tower`, which is True, and `number_of_towers`. Code that ran for "
            "one tower alone now runs once anyway; the index of a tower is "
            "`replicate.tower_index()`, a tensor."
        )


class _Collection:
    """Stands for the name of a collection that no longer exists."""

    def __get__(self, instance: Any, owner: Any = None) -> NoReturn:
        raise AttributeError(
            "`model_fn` is called once for all towers, so that no collection holds the state of "
            "each, but `TowerOptimizer.COLLECTION_FOR_GRAPH_STATES` was asked for. Write "
            "`TowerOptimizer._graph_state()` for `tf.get_collection(...)[0]`."
        )


class Ancestor:
    """Static methods of `TowerOptimizer` that the ancestor had."""

    @staticmethod
    def has_been_used() -> bool:
        """Returns whether any `TowerOptimizer` has applied gradients in the current graph.

        if not replicate.TowerOptimizer.has_been_used():
            raise ValueError("Wrap the optimizer.")
        """
        return _used.get(graph_here(), False)

    COLLECTION_FOR_GRAPH_STATES = _Collection()

    @staticmethod
    def _graph_state() -> GraphState:
        """Returns the state of the current graph."""
        return GraphState()

    def _distributed_apply(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises a RuntimeError: only the wrapped optimizer applies gradients."""
        raise RuntimeError(
            "`TowerOptimizer` sums gradients and leaves it to the optimizer that it wraps to apply "
            "them, but `_distributed_apply`, the second half of a TensorFlow optimizer's "
            "`apply_gradients`, was called. Call `apply_gradients` in a replica. An optimizer that "
            "scales losses goes inside of `TowerOptimizer`, or pass `loss_scale=`."
        )


def remember_use() -> None:
    """Lets `has_been_used` know that gradients are applied in the current graph."""
    _used[graph_here()] = True
