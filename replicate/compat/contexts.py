"""Control flow contexts of TensorFlow 1, for loops and conditions that were imported.

TensorFlow itself makes them for those that Python builds. They tell in which loop an operation is.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import control_flow_ops


def loop(outer: Any, frame: str, rounds: int) -> Any:
    """Returns the context of a loop.

    Args:
        outer: The context around it, None if there is none.
        frame: The name of its frame.
        rounds: The number of rounds that may run at once.
    """
    with _inside(outer):
        made = _Loop(parallel_iterations=rounds)
    made._name = frame
    return made


class _Loop(control_flow_ops.WhileContext):
    """The context of a loop that was imported, through which TensorFlow cannot take gradients.

    A gradient counts and stores rounds in the loop itself, whose variables TensorFlow knows only if
    it has built the loop. Without an error, the gradient would lack the part that goes through it.
    """

    def AddForwardLoopCounter(self, outer_grad_state: Any) -> Any:  # noqa: N802
        """Called by TensorFlow when it begins to take a gradient through the loop."""
        raise ValueError(
            f"replicate: a gradient through the loop '{self.name}' is taken outside of the "
            "`model_fn`, but the loop was changed for towers. Take it inside of the `model_fn`."
        )


def branch(outer: Any, predicate: Any, pivot: Any, index: int) -> Any:
    """Returns the context of a branch of a condition.

    Args:
        outer: The context around it, None if there is none.
        predicate: The tensor that chooses the branch.
        pivot: The operation that runs if the branch is taken.
        index: 1 for the branch that runs if the predicate holds, else 0.
    """
    with _inside(outer):
        return control_flow_ops.CondContext(predicate, pivot.outputs[0], index)


def put(operation: Any, context: Any) -> None:
    """Puts an operation into a context."""
    operation._set_control_flow_context(context)


@contextlib.contextmanager
def _inside(outer: Any) -> Iterator[None]:
    graph = tf.get_default_graph()
    before = graph._get_control_flow_context()
    graph._set_control_flow_context(outer)
    try:
        yield
    finally:
        graph._set_control_flow_context(before)
