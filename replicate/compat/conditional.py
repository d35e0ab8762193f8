"""Runs operations conditionally, without one operation per input of the branch.

A `tf.cond` adds a switch operation for every tensor that enters a branch. An optimizer's update
takes all variables and slots, in many models hundreds of small ones, and their switches can take as
long as the update. Here an operation whose inputs all come from outside waits for the condition by
a control edge instead. If the condition does not hold, the edge is dead, and so are the operations
behind it.
"""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import control_flow_ops, control_flow_util


def is_possible() -> bool:
    """Whether `cond` works here: in a graph that is not a function, outside other control flow.

    Branches of this module's `cond` may be nested. Functions have no dead edges. In a `tf.cond`, a
    loop or a TPU's replica, the compiler needs an operation for each tensor that enters.
    """
    graph = tf.get_default_graph()
    context = graph._get_control_flow_context()
    return not hasattr(graph, "outer_graph") and (context is None or isinstance(context, _Branch))


def cond(
    holds: tf.Tensor,
    on_true: Callable[[], list[tf.Tensor]],
    on_false: Callable[[], list[tf.Tensor]],
) -> list[tf.Tensor]:
    """Does the same as `tf.cond`; requires `is_possible`.

    Args:
        holds: Boolean scalar tensor.
        on_true: Function without arguments that makes and returns a list of tensors.
        on_false: Likewise, with tensors of the same types.

    Returns:
        List of the tensors of the function that was chosen.
    """
    with tf.name_scope("cond"):
        switched = tf.raw_ops.Switch(data=holds, pred=holds)
        holds = tf.identity(holds)
        made = []
        for index, fn in [(1, on_true), (0, on_false)]:  # In this order, as `tf.cond`.
            branch = _Branch(holds, tf.identity(switched[index]), index)
            branch.Enter()
            try:
                made.append(fn())
            finally:
                branch.Exit()
        return [tf.raw_ops.Merge(inputs=list(pair))[0] for pair in zip(*made)]


@contextlib.contextmanager
def old_control_flow() -> Iterator[None]:
    """A scope with TensorFlow 1's control flow."""
    is_new = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    try:
        yield
    finally:
        if is_new:
            tf.enable_control_flow_v2()


class _Branch(control_flow_ops.CondContext):
    """The branch of a `tf.cond` of TensorFlow 1, without switches for inputs of operations.

    Nested control flow, such as a loop, enters as usual.
    """

    def _AddOpInternal(self, op: tf.Operation) -> None:  # noqa: N802  # TensorFlow's name.
        before = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
        if not any(control_flow_util.OpInContext(other, self) for other in before):
            op._add_control_input(self._pivot.op)
        context = self
        while context is not None:
            context._values.update(tensor.name for tensor in op.outputs)
            context = context.outer_context
        op.graph.prevent_fetching(op)
