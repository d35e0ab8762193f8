"""What `tf.contrib.estimator.TowerOptimizer` had besides, for code that asks for it."""

from __future__ import annotations

from typing import NoReturn

from replicate.graphs import GraphLocal, graph_here

_used = GraphLocal()


class Ancestor:
    """Static methods of `TowerOptimizer` that the ancestor had."""

    @staticmethod
    def has_been_used() -> bool:
        """Returns whether any `TowerOptimizer` has applied gradients in the current graph.

        if not replicate.TowerOptimizer.has_been_used():
            raise ValueError("Wrap the optimizer.")
        """
        return _used.get(graph_here(), False)

    @staticmethod
    def _graph_state() -> NoReturn:
        """Raises, since there is one call of `model_fn` for all towers, and nothing to count."""
        raise RuntimeError(
            "`model_fn` is called once for all towers, so there is no state of a graph that says "
            "which tower is built, but `TowerOptimizer._graph_state()` of "
            "`tf.contrib.estimator` was called. What was done for one tower, such as the last, "
            "happens once by itself; the index of a tower is `replicate.tower_index()`, a tensor, "
            "their number `replicate.num_towers()`."
        )


def remember_use() -> None:
    """Lets `has_been_used` know that gradients are applied in the current graph."""
    _used[graph_here()] = True
