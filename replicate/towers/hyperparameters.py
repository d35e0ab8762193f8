"""What optimizers take besides gradients, such as a learning rate, is of the rows of all towers."""

import contextlib

import tensorflow.compat.v1 as tf

from replicate.compat import copying
from replicate.compat.graph import id_of
from replicate.graphs import extents, line_of
from replicate.towers.copies import last_id


@contextlib.contextmanager
def of_all_rows(group):
    """A scope in which gradients of the whole batch are changed and applied, once for all towers.

    What its operations take from before, if it was made from a tower's rows, is what it would be of
    all rows, such as a learning rate of the loss; see `replicate.graphs.extents`. If that is not
    known, it stays tower 0's, and the log says so.

    Args:
        group: The `Towers`.
    """
    first = last_id(group.graph)
    yield
    unknown = {}
    for op in [op for op in group.graph.get_operations() if id_of(op) > first]:
        for position, tensor in enumerate(op.inputs):
            if id_of(tensor.op) > first or not group.reach(tensor):
                continue
            merged = extents.merged(group, tensor)
            if merged is None:
                unknown.setdefault(tensor.name, (tensor.op, op))
            else:
                copying.redirect(op, position, merged)
    if unknown:
        _warn(unknown.values())


def _warn(pairs):
    tf.logging.warning(
        "replicate: gradients of the whole batch are applied with what is made from rows, such as "
        "a learning rate, and nothing says what that is of all rows, so that it is tower 0's: %s. "
        "Make it of `replicate.cross_tower_mean` or `cross_tower_sum`.",
        ", ".join(f"{made.name} ({line_of(made)}), by {op.name}" for made, op in pairs),
    )
