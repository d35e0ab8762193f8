"""Changes what takes a tensor after the fact, and makes operations once more."""


def redirect(op, index, tensor):
    """Makes `tensor` input `index` of the existing operation `op`."""
    op._update_input(index, tensor)


def replace(pairs):
    """Lets whatever takes the first tensor of a pair take the second one instead.

    Args:
        pairs: List of pairs.
    """
    takers, others = {}, {}
    for tensor, other in pairs:
        others[id(tensor)] = other
        takers.update((op.name, op) for op in tensor.consumers())
    for op in takers.values():  # Whose inputs are listed anew after each change.
        for index, given in enumerate(list(op.inputs)):
            if id(given) in others:
                op._update_input(index, others[id(given)])


def again(op, inputs):
    """Makes an operation like `op` of other inputs; returns its outputs."""
    attrs = {name: value for name, value in op.node_def.attr.items() if name != "_class"}
    made = op.graph.create_op(
        op.type,
        list(inputs),
        [output.dtype for output in op.outputs],
        name=op.type,
        attrs=attrs,
        op_def=op.op_def,
    )
    return made.outputs
