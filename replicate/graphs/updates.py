"""Finds the operations that update a variable, and those that run with an operation."""

import tensorflow.compat.v1 as tf

from replicate.compat.functions import function_bodies, functions_of

# Operations that take a variable's handle and leave the variable as it is.
_READS = frozenset(
    [
        "Identity",
        "IsVariableInitialized",
        "ReadVariableOp",
        "ResourceGather",
        "ResourceGatherNd",
        "SaveV2",
        "VarIsInitializedOp",
        "VariableShape",
    ]
)
_CHOOSE = frozenset(["Case", "If", "StatelessCase", "StatelessIf"])
_CHECKS = frozenset(["IsVariableInitialized", "VarIsInitializedOp"])

# Operations through which the control flow of TensorFlow 1 hands a variable to what updates it.
CONTROL_FLOW_V1 = frozenset(["Enter", "RefEnter", "RefSwitch", "Switch"])


def uses(variable):
    """Returns the operations on `variable`'s handle that are neither initialiser nor check."""
    return [
        op
        for op in variable.op.outputs[0].consumers()
        if op is not variable.initializer and op.type not in _CHECKS
    ]


def writes(variable):
    """Returns the operations that may change `variable`, its initialiser apart."""
    return [op for op in uses(variable) if may_write(op)]


def changes(variable):
    """Returns the operations that change `variable`, those that call what does so included."""
    bodies, found = {}, []
    pending = [(op, variable.op.outputs[0]) for op in writes(variable)]
    while pending:
        op, tensor = pending.pop()
        if op.type in CONTROL_FLOW_V1:
            pending += [(after, out) for out in op.outputs for after in out.consumers()]
        elif functions_of(op.node_def):
            bodies = bodies or function_bodies(op.graph)
            if any(
                given is tensor and _writes_inside(op.node_def, i, bodies)
                for i, given in enumerate(op.inputs)
            ):
                found.append(op)
        elif op.type not in _READS:
            found.append(op)
    return found


def _writes_inside(node, position, bodies):
    """Whether functions that a node calls change the variable that is its input `position`."""
    if node.op in _CHOOSE:
        position -= 1  # The first input says which function it is.
    for name in functions_of(node):
        if name not in bodies or not 0 <= position < len(bodies[name].signature.input_arg):
            continue
        handle = bodies[name].signature.input_arg[position].name
        for inner in bodies[name].node_def:
            taken = [i for i, given in enumerate(inner.input) if given == handle]
            if not taken or inner.op in _READS:
                continue
            if not functions_of(inner) or any(_writes_inside(inner, i, bodies) for i in taken):
                return True
    return False


def may_write(op):
    """Whether an operation that takes a variable's handle may change the variable."""
    return op.type not in _READS


def ancestors(operations):
    """Returns the set of operations that run when `operations` are fetched, themselves included.

    Args:
        operations: Operations, or tensors.
    """
    pending = [getattr(operation, "op", operation) for operation in operations]
    seen = set(pending)
    while pending:
        op = pending.pop()
        for before in [tensor.op for tensor in op.inputs] + op.control_inputs:
            if before not in seen:
                seen.add(before)
                pending.append(before)
    return seen


def ends(operations):
    """Returns what runs once all `operations` have, those inside of conditions included.

    When a graph runs, operations that call functions give way to the functions' own. A control
    input from an `If` then waits for the choice of a branch; its outputs are there after that.
    """
    called = [op for op in operations if functions_of(op.node_def)]
    return [*operations, *(tf.identity(output) for op in called for output in op.outputs)]


def written_inside(node, flags, bodies):
    """Finds what the functions that a node calls change.

    Args:
        node: The `NodeDef`.
        flags: For each of its inputs, whether it depends on rows.
        bodies: Functions, `FunctionDef`s, by their names.

    Returns:
        Dictionary from positions of handles among its inputs to whether rows enter the change.
    """
    first = 1 if node.op in _CHOOSE else 0  # The first input says which function it is.
    found = {}
    for name in functions_of(node):
        body = bodies.get(name)
        if body is None or len(body.signature.input_arg) != len(flags) - first:
            continue
        # In a branch that rows choose, everything depends on them.
        chosen = any(flags[:first])
        for position, depends in _written(body, flags[first:], bodies).items():
            position += first
            found[position] = found.get(position, False) or depends or chosen
    return found


def _written(body, flags, bodies):
    """Does `written_inside` for one function, a `FunctionDef`."""
    arguments = [argument.name for argument in body.signature.input_arg]
    dependent = {name for name, flag in zip(arguments, flags) if flag}
    handles = {name: position for position, name in enumerate(arguments)}
    nodes = list(body.node_def)
    changed = True
    while changed:  # Until nothing more is found: nodes are in any order.
        before = len(dependent), len(handles)
        for node in nodes:
            taken = [given.partition(":")[0] for given in node.input if not given.startswith("^")]
            if any(name in dependent for name in taken):
                dependent.add(node.name)
            if node.op in ("Identity", "Enter", "Switch") and taken and taken[0] in handles:
                handles.setdefault(node.name, handles[taken[0]])
        changed = before != (len(dependent), len(handles))
    found = {}
    for node in nodes:
        taken = [given.partition(":")[0] for given in node.input if not given.startswith("^")]
        if functions_of(node):
            inner = written_inside(node, [name in dependent for name in taken], bodies)
        elif node.op in _READS:
            continue
        else:
            inner = {
                i: any(other in dependent for other in taken)
                for i, name in enumerate(taken)
                if name in handles and _is_resource(body, handles[name])
            }
        for i, depends in inner.items():
            if taken[i] in handles:
                position = handles[taken[i]]
                found[position] = found.get(position, False) or depends
    return found


def _is_resource(body, position):
    return body.signature.input_arg[position].type == tf.resource.as_datatype_enum
