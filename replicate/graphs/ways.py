"""By which inputs of operations what a tower has of its own gets into a tensor."""

from replicate.compat.graph import id_of


def lead_to(tensor, copies, ends):
    """Whether a tensor is made of what a tower has of its own, by a way that does not end before.

    Args:
        tensor: The tensor.
        copies: The `Copies`.
        ends: Function of an operation and the name of one of its inputs, "" if it takes a list,
            that says whether ways through that input do not count.
    """
    if copies.is_boundary(tensor):
        return True
    pending, seen = [tensor.op], set()
    while pending:
        op = pending.pop()
        if id_of(op) in seen:
            continue
        seen.add(id_of(op))
        for name, given in zip(_names_of_inputs(op), op.inputs):
            if not copies.rows.reach(given) or ends(op, name):
                continue
            if copies.is_boundary(given):
                return True
            pending.append(given.op)
    return False


def _names_of_inputs(op):
    arguments = op.op_def.input_arg
    if len(arguments) != len(op.inputs):  # Some are lists.
        return [""] * len(op.inputs)
    return [argument.name for argument in arguments]
