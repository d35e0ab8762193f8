"""State that functions and loops change, of which each tower has its own within a step.

An operation that calls functions, as `tf.cond` and `tf.function` do, and a loop, can only be copied
as a whole, with what they change. So that the copies do not change it again, each takes a variable
of its own instead, which has tower 0's value at the start of the step, and is merged or forgotten:

    aggregation SUM     it starts at its initial value; tower 0's grows by it
    aggregation MEAN    tower 0's becomes the mean, weighted by rows
    otherwise           forgotten: what no row enters is the same in all towers
"""

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib
from replicate.compat.functions import function_bodies
from replicate.compat.graph import id_of
from replicate.graphs import line_of, state, updates

_SCOPE = "replicate/own_state/"


class Change:
    """A variable that a function or loop changes.

    Attributes:
        op: The operation that calls the function, or by which a handle enters the loop.
        position: Which of its inputs the handle is.
        variable: The variable.
        depends: Whether rows enter what it becomes.
        ends: Operations after which it has changed.
    """

    def __init__(self, op, position, variable, depends, ends):
        self.op = op
        self.position = position
        self.variable = variable
        self.depends = depends
        self.ends = ends


def find(group, variables):
    """Returns the `Change`s in the model.

    Args:
        group: The `Towers`, the model built.
        variables: The variables, by the id of their operation.
    """
    rows, bodies, found, loops = group.copies.rows, None, [], {}
    for op in group.copies.new_operations():
        if group.copies.is_once(op):
            continue
        if state.writes(op) and graph_lib.in_while_loop(op):
            for handle in state.handles(op):
                enter = _enter(handle)
                if enter is not None:
                    loops.setdefault(enter, []).append(op)
            continue
        if not state.kind(op).calls_functions or not state.handles(op):
            continue
        bodies = function_bodies(group.graph) if bodies is None else bodies
        flags = [rows.reach(tensor) for tensor in op.inputs]
        for position, depends in updates.written_inside(op.node_def, flags, bodies).items():
            variable = variables.get(id_of(state.source(op.inputs[position])))
            found.append(Change(op, position, variable, depends, [op]))
    for enter, ops in loops.items():
        variable = variables.get(id_of(state.source(enter.inputs[0])))
        depends = any(rows.takes(op) for op in ops)
        ends = graph_lib.exits_of_loop(ops[0])
        found.append(Change(enter, 0, variable, depends, ends))
    return found


def _enter(handle):
    while handle.op.type in ("Switch", "RefSwitch", "Identity", "RefIdentity"):
        handle = handle.op.inputs[0]
    return handle.op if handle.op.type in ("Enter", "RefEnter") else None


def give_own(group, changes):
    """Gives copies variables of their own; returns those that were merged, and the operations.

    Args:
        group: The `Towers`.
        changes: List of `Change`s.
    """
    merged, operations = [], []
    for change in changes:
        if not _needs_own(group, change):
            group.copies.share(change.op)
            continue
        variable = change.variable
        if variable is None or not hasattr(variable, "handle"):
            raise ValueError(
                "What a function or loop changes must be a resource variable for each tower to "
                f"have its own, but {change.op.type} {change.op.name} ({line_of(change.op)}) "
                f"changes {change.op.inputs[change.position].op.name}. Change it outside, by what "
                "the function or loop returns."
            )
        aggregation = getattr(variable.aggregation, "name", None)
        adds = aggregation == "SUM"
        merges = change.depends and aggregation in ("SUM", "MEAN")
        own = _make_own(group, change, adds)
        handles = [variable.handle, *(each.handle for each in own)]
        group.copies.take_instead(change.op, change.position, handles)
        if merges:
            merged.append(change)
            operations.append((change, own, adds))
    return merged, operations


def _needs_own(group, change):
    """Whether copies of the operation are made at all: rows enter it."""
    if change.op.type in ("Enter", "RefEnter"):
        return True
    return group.copies.rows.takes(change.op)


def _make_own(group, change, adds):
    """Returns the later towers' variables, which are given a value before the operation runs."""
    variable, own = change.variable, []
    waits = list(change.op.control_inputs)
    for index in range(1, group.size):
        with group.of_session(index):
            own.append(
                tf.Variable(
                    lambda: tf.zeros(variable.shape, variable.dtype.base_dtype),
                    trainable=False,
                    collections=[tf.GraphKeys.LOCAL_VARIABLES],
                    use_resource=True,
                    name=f"replicate/tower_{index}/{variable.op.name}",
                )
            )
    group.variables.accumulated += own
    alone = tf.control_dependencies(None)
    with group.once(), alone, tf.name_scope(_SCOPE), tf.control_dependencies(waits):
        start = variable.initial_value if adds else variable.read_value()
        restarts = [each.assign(start, read_value=False) for each in own]
    graph_lib.add_control_inputs(change.op, restarts)
    return own


def merge(group, made):
    """Returns the operations that merge what copies have changed, once these are made.

    Args:
        group: The `Towers`.
        made: What `give_own` returned.
    """
    merges = []
    for change, own, adds in made:
        ends = list(change.ends)
        for index in range(1, group.size):
            ends += group.copies.of_ops(change.ends, index)
        with group.once(), tf.control_dependencies(None), tf.name_scope(_SCOPE):
            after = updates.ends(ends)
        alone = tf.control_dependencies(None)
        with group.once(), alone, tf.name_scope(_SCOPE), tf.control_dependencies(after):
            values = [variable.read_value() for variable in [change.variable, *own]]
            weights = group.row_weights
            parts = []
            for index, value in enumerate(values):
                if not adds:
                    value = value * weights.of(index, value.dtype)
                elif index:
                    value = value - tf.cast(change.variable.initial_value, value.dtype)
                if not adds or index:
                    value = weights.mask(index, value, tf.zeros_like(value))
                parts.append(value)
            op = change.variable.assign(tf.add_n(parts), read_value=False)
        merges.append(op)
        for later in graph_lib.control_outputs(change.op):
            before = updates.ancestors([op])
            if not group.copies.is_copied(later) and later not in before:
                graph_lib.add_control_inputs(later, [op])
    return merges
