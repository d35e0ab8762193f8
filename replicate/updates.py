"""Finds the operations that update a variable, and those that run with an operation."""

import re

import tensorflow.compat.v1 as tf

from replicate.sharding import SHARD_SCOPE

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

# Operations by which TensorFlow's own optimizers update variables.
_APPLY = re.compile("(Resource)?(Sparse)?Apply")

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
        elif _functions(op.node_def):
            bodies = bodies or _function_bodies(op.graph)
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
    for name in _functions(node):
        if name not in bodies or not 0 <= position < len(bodies[name].signature.input_arg):
            continue
        handle = bodies[name].signature.input_arg[position].name
        for inner in bodies[name].node_def:
            taken = [i for i, given in enumerate(inner.input) if given == handle]
            if not taken or inner.op in _READS:
                continue
            if not _functions(inner) or any(_writes_inside(inner, i, bodies) for i in taken):
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
    called = [op for op in operations if _functions(op.node_def)]
    return [*operations, *(tf.identity(output) for op in called for output in op.outputs)]


def own_updates(tower, variables):
    """Finds where a later tower updates shared variables by itself, from its own rows.

    What a rendezvous gave the tower is computed from all rows alike, and does not count. Of an
    operation that calls functions, such as `tf.cond`, it counts if an optimizer's update is in
    them; whether they assign the variable cannot be told.

    Args:
        tower: The `Tower`, not the first.
        variables: The variables.

    Returns:
        List of `(variable, operation)` pairs.
    """
    bodies = {}
    found = []
    for variable in variables:
        pending = writes(variable)
        while pending:
            op = pending.pop()
            if op.type in CONTROL_FLOW_V1:
                consumers = [consumer for output in op.outputs for consumer in output.consumers()]
                pending += [consumer for consumer in consumers if consumer.type not in _READS]
            elif not _in_scope(op, tower):
                continue
            elif _functions(op.node_def):
                bodies = bodies or _function_bodies(op.graph)
                if _calls_optimizer(op, bodies):
                    found.append((variable, op))
            elif _APPLY.match(op.type) or _depends_on_rows(op, tower):
                found.append((variable, op))
    return found


def check_wrapped(group):
    """Raises if a later tower trains variables past the rendezvous of `TowerOptimizer`.

    Args:
        group: The `Towers`, built for training.

    Raises:
        ValueError: If it does; names the variable and the operation.
    """
    trained = [v for v in group.variables.shared if v.trainable] + tf.trainable_variables()
    if group.variables.replicas:
        trained += group.variables.replicas.later
    for variable, op in own_updates(group.towers[1], trained):
        raise ValueError(
            "Every optimizer in a replicated `model_fn` must be wrapped, so that the towers' "
            f"gradients are gathered, but '{variable.name}' is updated in each tower by itself, in "
            f"tower 1 by {op.name}. Write `optimizer = replicate.TowerOptimizer(optimizer)`."
        )


def warn_if_repeated(group, train_op):
    """Warns of variables that every tower updates by itself when `train_op` runs.

    Args:
        group: The `Towers`, built for training.
        train_op: The train operation of all towers.
    """
    updates = own_updates(group.towers[1], tf.global_variables())
    reached = ancestors([train_op]) if updates else ()
    repeated = sorted({variable.name for variable, op in updates if op in reached})
    if repeated:
        tf.logging.warning(
            "replicate: every tower updates %s from its own rows, so each step does it %d times, "
            "in any order. Make the variable with synchronization=tf.VariableSynchronization."
            "ON_READ and aggregation=tf.VariableAggregation.MEAN to merge the towers' updates, or "
            "update it once, in `replicate.merge_call`.",
            ", ".join(repeated),
            group.size,
        )


def _depends_on_rows(op, tower):
    """Whether `op` takes what `tower` computed from its shard of the batch."""
    pending, seen = list(op.inputs), set()
    while pending:
        tensor = pending.pop()
        if tensor.op.name.startswith(SHARD_SCOPE):
            return True
        if tensor.ref() in seen or not _in_scope(tensor.op, tower):
            continue
        seen.add(tensor.ref())
        inputs = tensor.op.inputs
        # A cross-tower sum hangs on the tower's own value by its gradient alone.
        pending += [inputs[tensor.value_index]] if tensor.op.type == "IdentityN" else inputs
    return False


def _in_scope(op, tower):
    return op.name.startswith(tower.name_scope + "/")


def _function_bodies(graph):
    """Returns the functions in `graph`, `FunctionDef`s, by their names."""
    functions = graph.as_graph_def().library.function
    return {function.signature.name: function for function in functions}


def _calls_optimizer(op, bodies):
    """Whether a function that `op` calls, directly or not, holds an optimizer's update."""
    pending, seen = _functions(op.node_def), set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        for node in bodies[name].node_def if name in bodies else ():
            if _APPLY.match(node.op):
                return True
            pending += _functions(node)
    return False


def _functions(node):
    """Returns the names of the functions that the `NodeDef` calls."""
    names = [attr.func.name for attr in node.attr.values()]
    names += [func.name for attr in node.attr.values() for func in attr.list.func]
    return [name for name in names if name]
