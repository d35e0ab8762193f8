"""Which gradients were gathered from all towers, and what was made of them."""

import tensorflow.compat.v1 as tf

from replicate.graphs import Rows, line_of, state


class Gathered:
    """The gathered gradients of one model.

    Args:
        graph: The graph.
        rows: The `Rows` of the model.
    """

    def __init__(self, graph, rows):
        self._rows = rows
        self._gathered = {}  # By the `id` of a gathered gradient: it, and those of all towers.
        self._reach = Rows(graph, state.writes)  # What depends on gathered gradients.

    def remember(self, gradient, by_tower):
        """Keeps what a gathered gradient was made of, a list of those of all towers."""
        self._gathered[id(gradient)] = gradient, by_tower
        parts = gradient if isinstance(gradient, tf.IndexedSlices) else None
        self._reach.add(gradient if parts is None else parts.values)

    def follow(self, gradient, other):
        """Lets `other` have the origin of `gradient`, which it is a multiple of."""
        if id(gradient) in self._gathered:
            self._gathered[id(other)] = other, self._gathered[id(gradient)][1]

    def origin(self, gradient):
        """Returns what a gradient was gathered from, those of all towers, None if it was not."""
        found = self._gathered.get(id(gradient))
        return None if found is None else found[1]

    def check_not_mixed(self, gradient, variable):
        """Raises if a gradient depends on gathered ones and on this tower's rows besides.

        Raises:
            ValueError: If it does.
        """
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        if not self._reach.reach(values):
            return
        op = values.op
        while True:  # Until what first brings the two together.
            mixed = [
                tensor.op
                for tensor in op.inputs
                if self._rows.reach(tensor) and self._reach.reach(tensor)
            ]
            if not mixed:
                break
            op = mixed[0]
        raise ValueError(
            "Gradients of variables are those of the whole batch from where they are made, so "
            f"what is done to them must be of all rows, too, but that of '{variable.name}' is "
            f"combined with what one tower's rows give, by {op.type} {op.name} ({line_of(op)}). "
            "Use `replicate.cross_tower_sum` or `cross_tower_mean` of that; how many rows there "
            "are in all is `cross_tower_sum(tf.shape(x)[0])`."
        )
