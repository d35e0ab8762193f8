"""What is done once for all towers waits for all of them where the model lets it wait for one."""

from replicate.compat import graph as graph_lib
from replicate.compat.graph import id_of
from replicate.graphs import ancestors


def for_all(group, fetches):
    """Lets what waits for an operation on tower 0's rows wait for its copies, too.

    Args:
        group: The `Towers`.
        fetches: Operations or tensors that are run.
    """
    waits, known = [], {}

    def is_of_rows(op):  # Asked often of the same: batch norm's updates, say, by all that wait.
        if op not in known:
            known[op] = _is_of_rows(group, op)
        return known[op]

    for op in ancestors(fetches):
        # What is in a branch of TensorFlow 1 waits for its own, which others may not take.
        if group.copies.is_copied(op) or graph_lib.is_in_control_flow(op):
            continue
        found = [before for before in op.control_inputs if is_of_rows(before)]
        waits += [(op, found)] if found else []
    group.copies.make([c for _, found in waits for c in found])
    for op, found in waits:
        for index in range(1, group.size):
            graph_lib.add_control_inputs(op, group.copies.of_ops(found, index))


def _is_of_rows(group, op):
    copies = group.copies
    return copies.rows.takes(op) and not copies.is_whole(op) and not op.type.startswith("Print")


def behind(group, operations):
    """Returns the ids of the model's operations that run after one of `operations`."""
    first, found = {id_of(op) for op in operations}, set()
    for op in group.copies.new_operations():  # As they were made: what is taken comes first.
        before = [*(tensor.op for tensor in op.inputs), *op.control_inputs]
        if any(id_of(one) in first or id_of(one) in found for one in before):
            found.add(id_of(op))
    return found
