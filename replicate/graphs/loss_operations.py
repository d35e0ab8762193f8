"""What operations do to values that are reduced over rows, on their way into a loss."""

from replicate.compat.graph import id_of
from replicate.graphs import row_shapes, state, ways
from replicate.graphs.reduction_kinds import MEAN, SUM, WHOLE, axis_of
from replicate.graphs.static_values import static_value

SUMS = ("Sum", "L2Loss")
DIVISIONS = ("RealDiv", "DivNoNan", "Div")
_NEAR = 100  # How many operations before a mean are looked at.
_SEEDS = ("seed", "key", "counter")  # What random numbers begin with, of operations without state.
_FLOWS = ("Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit")
# Linear in all that they take.
_LINEAR = row_shapes.LINEAR | row_shapes.SHAPES
_LINEAR |= {"Add", "AddV2", "AddN", "AccumulateNV2", "Sub", "Sum", "Mean", "Pack", "Snapshot"}


def goes_on(op, extents):
    """Whether an operation can be done again, of what its inputs are for all rows.

    Args:
        op: The operation.
        extents: The `Extents`.
    """
    kind = state.kind(op)
    pure = not kind.is_stateful or op.type == "CheckNumerics"
    if not op.inputs or not pure or kind.calls_functions or op.type in _FLOWS:
        return False
    if extents.is_mean(op) or is_count(op, extents):
        return False
    reduced = all(axis_of(extents.of(given)) is None for given in op.inputs)
    return reduced and op.type != "IdentityN"


def is_count(op, extents):
    """Whether an operation divides a sum by a number of rows, which is a mean."""
    if op.type not in DIVISIONS or extents.of(op.outputs[0]) != MEAN:
        return False
    divisor = op.inputs[1].op
    while divisor.type in ("Cast", "Identity", "Mul", "Reshape", "StopGradient", "Squeeze"):
        of_rows = [given for given in divisor.inputs if extents.of(given) == SUM]
        if len(of_rows) != 1:
            return False
        divisor = of_rows[0].op
    if divisor.type == "Size":
        counted = divisor.inputs[0]
        sizes, axis = counted.shape, axis_of(extents.of(counted))
        if axis is None or sizes.rank is None:
            return False
        return None not in sizes[:axis].as_list() + sizes[axis + 1 :].as_list()
    return divisor.type == "StridedSlice" and divisor.inputs[0].op.type == "Shape"


def is_linear(op, extents):
    """Whether what an operation gives is linear in what it takes of rows."""
    if op.type in _LINEAR:
        return True
    if op.type == "Mul":
        return any(extents.of(given) == WHOLE for given in op.inputs)
    return op.type in DIVISIONS and extents.of(op.inputs[1]) == WHOLE


def is_averaged(op, rows):
    """Whether what an operation adds up is divided by how many numbers these are, or rows.

    Args:
        op: The operation, of which nothing tells what its numbers are.
        rows: How many rows the tower has, None if that is no number.
    """
    counts = {rows, row_shapes.number_summed(op.outputs[0])} - {None}
    pending, seen = [op.outputs[0]], set()
    while pending and counts and len(seen) < _NEAR:
        tensor = pending.pop()
        for consumer in tensor.consumers():
            if id_of(consumer) in seen:
                continue
            seen.add(id_of(consumer))
            if consumer.type in DIVISIONS and consumer.inputs[0] is tensor:
                divisor = static_value(consumer.inputs[1])
                if divisor is not None and divisor.size == 1 and divisor.item() in counts:
                    return True
            elif consumer.type in _LINEAR and consumer.outputs[0].shape.rank == 0:
                pending.append(consumer.outputs[0])
    return False


def chooses_rows(op):
    """Whether an operation is a mean over rows that the model chooses, as by a boolean mask."""
    pending, seen = [op] if op.type == "Mean" else [], set()
    while pending and len(seen) < _NEAR:
        op = pending.pop()
        if id_of(op) in seen or not op.inputs:
            continue
        seen.add(id_of(op))
        if op.type in ("GatherV2", "GatherNd", "Gather"):
            indices = op.inputs[1].op
            while indices.type in ("Squeeze", "StridedSlice", "Reshape", "Cast", "Identity"):
                indices = indices.inputs[0].op
            if indices.type == "Where":
                return True
        pending += [given.op for given in op.inputs]
    return False


def is_drawn(tensor, copies):
    """Whether towers' values differ in nothing but numbers that each draws at random for itself.

    Args:
        tensor: The tensor, which differs among towers.
        copies: The `Copies`.
    """

    def ends(op, name):
        return name in _SEEDS and op.type.startswith("Stateless")

    return not ways.lead_to(tensor, copies, ends)
