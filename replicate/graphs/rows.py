"""Which tensors depend on what a tower has of its own, asked of the graph and never of names."""

from replicate.compat.graph import id_of
from replicate.graphs import state

# Who takes what these give may be older: the beginning of a loop; and what loops and conditions of
# TensorFlow 1 take from outside, which is led in once who takes it is there.
_LEAD_BACK = frozenset(
    prefix + name for prefix in ("", "Ref") for name in ("NextIteration", "Enter", "Switch")
)


class Rows:
    """What depends on tower 0's rows, while the graph grows.

    Args:
        graph: The graph.
        is_whole: Function of an operation that says whether what it gives is the same in all
            towers, whatever it takes: it was made of the values of all.
        with_random: Whether random numbers count as well, which each tower draws for itself, and
            what only gradients lead to rows from, as cross-tower sums.
    """

    def __init__(self, graph, is_whole, with_random=False):
        self._graph = graph
        self._is_whole = is_whole
        self._with_random = with_random
        self._tensors = set()  # (operation id, index) of those that are the rows.
        self._ops = set()  # ids of operations that depend on them
        self._known = 0  # How many operations of the graph have been looked at.
        self._version = None

    def add(self, tensor):
        """Takes a tensor, of which nothing was made yet, for one that each tower has its own of."""
        self._tensors.add((id_of(tensor.op), tensor.value_index))

    def reach(self, tensor):
        """Returns whether a tensor depends on rows."""
        self._look()
        return self._depends(tensor)

    def reach_op(self, op):
        """Returns whether what an operation gives depends on rows."""
        self._look()
        return id_of(op) in self._ops

    def takes(self, op):
        """Returns whether an operation takes what depends on rows."""
        self._look()
        return any(self._depends(tensor) for tensor in op.inputs)

    def _depends(self, tensor):
        op = tensor.op
        if (id_of(op), tensor.value_index) in self._tensors:
            return True
        if id_of(op) not in self._ops:
            return False
        if op.type == "IdentityN" and not self._with_random:
            # A cross-tower sum hangs on the tower's own value by its gradient alone.
            return self._depends(op.inputs[tensor.value_index])
        return True

    def _look(self):
        if self._version == self._graph.version:
            return
        self._version = self._graph.version
        operations = self._graph.get_operations()
        new, self._known = operations[self._known :], len(operations)
        for op in new:
            if id_of(op) not in self._ops and self._begins(op):
                self._mark(op)

    def _begins(self, op):
        if any(self._depends(tensor) for tensor in op.inputs):
            return True
        return self._with_random and state.draws(op)

    def _mark(self, op, with_later=False):
        """Marks an operation, and what loops and stacks lead it to, though made earlier."""
        pending = [(op, with_later)]
        while pending:
            op, with_later = pending.pop()
            if id_of(op) in self._ops or self._is_whole(op):
                continue
            self._ops.add(id_of(op))
            leads_back = with_later or op.type in _LEAD_BACK
            pending += [(after, True) for after in self._later(op)] if leads_back else []
            if state.is_of_step(op):
                # What was put into a stack comes out of it, with no tensor in between.
                for handle in state.handles(op):
                    made = state.source(handle)
                    if state.is_of_step(made) and id_of(made) not in self._ops:
                        self._ops.add(id_of(made))
                        pending += [(after, True) for after in self._later(made)]

    @staticmethod
    def _later(op):
        return [after for output in op.outputs for after in output.consumers()]
