"""Turns whole values into the towers' partials."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib


class Parts:
    """Makes partials whose reduction is a whole value.

    Args:
        place: Device string of the operations.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._nothing: dict[Any, Any] = {}

    def of(self, whole: Any, op: str, tower: int) -> Any:
        """Returns a tower's partial of a value, for a reduction such as "sum"."""
        if not tower or op not in ("sum", "prod"):
            return whole  # The mean or the maximum of equal partials is the value itself.
        # For a sum or product, the first tower has the value, and the others 0 or 1.
        key = graph_lib.reference(whole), op
        if key not in self._nothing:
            with tf.device(self._place), tf.control_dependencies(None):
                nothing = tf.raw_ops.ZerosLike if op == "sum" else tf.raw_ops.OnesLike
                self._nothing[key] = nothing(x=whole)
        return self._nothing[key]
