"""Operations that run in some steps only, which nothing has to enter one by one.

A `tf.cond` lets every tensor into its branches by an operation of its own. An optimizer's update
takes all variables and all of their slots, hundreds of small ones in many models, whose entering
can take as long as the update. Here an operation that takes all of its inputs from outside waits
for the condition by a control edge instead: where the condition does not hold the edge is dead, and
so are the operations behind it.
"""

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import control_flow_ops, control_flow_util


def is_possible():
    """Whether operations can be made so here: in a graph that is no function, nor in a branch.

    Functions have no dead edges; and of a `tf.cond`, a loop or a TPU's replica, what compiles it
    has to know how it is entered.
    """
    graph = tf.get_default_graph()
    context = graph._get_control_flow_context()
    return not hasattr(graph, "outer_graph") and (context is None or isinstance(context, _Branch))


def cond(holds, on_true, on_false):
    """Does as `tf.cond`, in a graph where `is_possible`.

    Args:
        holds: Boolean scalar tensor.
        on_true: Function without arguments that returns a list of tensors, which it makes.
        on_false: Likewise, of the same types.

    Returns:
        List of the tensors of one of them.
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


class _Branch(control_flow_ops.CondContext):
    """The branch of a `tf.cond` of TensorFlow 1 that operations themselves do not enter.

    What is nested in it, such as a loop, enters as into any.
    """

    def _AddOpInternal(self, op):  # noqa: N802  # TensorFlow's name.
        before = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
        if not any(control_flow_util.OpInContext(other, self) for other in before):
            op._add_control_input(self._pivot.op)
        context = self
        while context is not None:
            context._values.update(tensor.name for tensor in op.outputs)
            context = context.outer_context
        op.graph.prevent_fetching(op)
