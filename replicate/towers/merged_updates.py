"""Updates of variables from rows, made of the rows of all towers.

An update that no row enters happens once, since the model is built once. One that rows enter takes
the merged value of all towers, so that whoever waits for it or fetches it is left alone:

    aggregation SUM         what is added is added up, as metrics of rows need it; of metrics of
                            batches, it is that of the batch, see `batch_metrics`
    aggregation MEAN        the mean of the towers' values, weighted by rows: moving statistics
    ONLY_FIRST_REPLICA      tower 0's
    `declare_merge`         what was declared
    indices and slices      those of all towers
    otherwise               see `replicate.graphs.extents`; else tower 0's, with a warning

An update of what is trained, from the rows of one tower alone, is an error.
"""

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import copying
from replicate.compat import graph as graph_lib
from replicate.compat.graph import id_of
from replicate.graphs import axis_of, extents, line_of, state, ways
from replicate.towers import batch_metrics, declared_merges, own_state, own_training, waiting

_SCOPE = "replicate/updates/"

_SET = ("Assign", "AssignVariableOp")
_ADD = ("AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp")
_SLICES = tuple(
    f"{prefix}Scatter{kind}"
    for prefix in ("", "Resource")
    for kind in ("Add", "Sub", "Update", "NdAdd", "NdSub", "NdUpdate", "Min", "Max")
)
_TABLES = ("LookupTableInsert", "LookupTableInsertV2", "LookupTableRemoveV2")


class _Update(NamedTuple):
    op: tf.Operation
    variable: object  # The variable that it changes; None if that is something else.
    name: str
    depends: bool  # Whether rows enter it.


def merge(group, evaluating):
    """Lets updates take what they are made of from all towers.

    Args:
        group: The `Towers`, the model built.
        evaluating: Whether an update that cannot be merged is an error, as in metrics.

    Raises:
        ValueError: If what is trained is updated from one tower's rows, by an algorithm without
            gradients or otherwise, or in evaluation a metric whose merge is not known.
    """
    own_training.check(group)
    variables, initializers = _variables(group)
    changes = own_state.find(group, variables)
    updates = list(_updates(group, variables, initializers))
    unmerged = {}
    declared_merges.merge(group, updates)
    taking = [u.op for u in updates if u.depends and u.op.type in _SET + _ADD]
    later = waiting.behind(group, taking) if len(taking) > 1 else ()
    group.extents.prepare([op.inputs[1] for op in taking], later)
    added = [u for u in updates if u.op.type in _ADD and _is_added_up(u.variable)]
    of_batches = batch_metrics.find(group, added, variables)
    done = {id(variable) for one in group.declarations for variable in one.variables}
    for update in updates:
        if id(update.variable) in done:
            continue
        _check_not_trained(group, update)
        if id_of(update.op) in of_batches:
            _check_not_chosen_by_rows(group, update)
            batch_metrics.merge(group, update)
        elif not _merge(group, update):
            unmerged.setdefault(update.name, update)
    batch_metrics.warn(group)
    merged, made = own_state.give_own(group, changes)
    group.changed_inside = made
    for change in changes:
        if change.depends and change not in merged and change.variable is not None:
            update = _Update(change.op, change.variable, change.variable.name, True)
            _check_not_trained(group, update)
            unmerged.setdefault(update.name, update)
    if evaluating:
        batch_metrics.look_for_statistics(group, added)
        for update in unmerged.values():
            if update.variable is not None and _is_local(update.variable):
                raise _unknown_metric(update)
    names = [update for update in unmerged.values() if not state.writes_summaries(update.op)]
    group.unmerged = [(update.name, update.op) for update in names]
    if names:
        _warn(names)


def _variables(group):
    """Returns variables by the id of their operation, and the ids of their initialisers."""
    variables, initializers = {}, set()
    for variable in [
        *(made for made, _ in group.variables.made),
        *tf.global_variables(),
        *tf.local_variables(),
    ]:
        if isinstance(getattr(variable, "op", None), tf.Operation):
            variables[id_of(variable.op)] = variable
            initializer = variable.initializer  # Of a checkpoint's value, it may be a tensor.
            initializer = getattr(initializer, "op", initializer)
            initializers.add(initializer and id_of(initializer))
    return variables, initializers


def _updates(group, variables, initializers):
    """Yields what changes state when the model runs, and rows enter, or is added up anyway."""
    for op in group.copies.new_operations():
        if id_of(op) in initializers or group.copies.is_once(op):
            continue
        if not state.writes(op) or graph_lib.in_while_loop(op):
            continue
        handle = state.handles(op)[0]
        made = state.source(handle)
        variable = variables.get(id_of(made))
        depends = group.copies.rows.takes(op)
        if depends or (variable is not None and _aggregation(variable) == "SUM"):
            name = made.name if variable is None else variable.name
            yield _Update(op, variable, name, depends)


def _merge(group, update):
    """Lets an update take the values of all towers; returns whether it is known how."""
    op, variable = update.op, update.variable
    if not update.depends and op.type not in _ADD:
        return True
    if op.type in _SLICES or op.type in _TABLES:
        return _merge_slices(group, op)
    aggregation = None if variable is None else _aggregation(variable)
    if aggregation in ("ONLY_FIRST_REPLICA", "ONLY_FIRST_TOWER"):
        return True
    if op.type not in _SET + _ADD:
        return False
    _check_not_chosen_by_rows(group, update)
    value = op.inputs[1]
    if aggregation == "SUM":
        if op.type in _SET:
            merged = _sum_of_changes(group, value, variable)
        else:
            merged = _total(group, value, averaged=False)
    else:
        merged = extents.merged(group, value)
        if merged is None and aggregation == "MEAN":
            merged = _total(group, value, averaged=True)
        if merged is None:
            return False
    copying.redirect(op, 1, merged)
    return True


def _total(group, value, averaged):
    with group.once(), tf.control_dependencies(None), tf.name_scope(_SCOPE):
        return group.total(value, averaged)


def _sum_of_changes(group, value, variable):
    with group.once(), tf.control_dependencies(None), tf.name_scope(_SCOPE):
        before = variable.read_value()
        changes = [
            group.row_weights.mask(index, own - before, tf.zeros_like(own))
            for index, (own,) in enumerate(group.each([value]))
        ]
        return before + tf.add_n(changes)


def _merge_slices(group, op):
    """Lets an operation take the slices of all towers; returns whether it is known how."""
    given = list(op.inputs[1:])
    if any(_is_of_rows(group, tensor) for tensor in given):
        if not ways.lead_to(given[0], group.copies, _tells_sizes):
            return False  # Places that are counted, by each tower from the same one on.
        _concatenate(group, op)
        return True
    merged = [extents.merged(group, tensor) for tensor in given]
    if any(tensor is None for tensor in merged):
        return False
    for position, tensor in enumerate(merged, 1):
        copying.redirect(op, position, tensor)
    return True


def _tells_sizes(op, name):
    return op.type in ("Shape", "ShapeN", "Size")


def _is_of_rows(group, tensor):
    kind = group.extents.of(tensor)
    if kind is not None or not tensor.shape.rank:
        return axis_of(kind) is not None
    size = tensor.shape.as_list()[0]
    return size is None or size == group.boundary.rows


def _concatenate(group, op):
    """Lets an operation take the indices, keys and slices of all towers."""
    given = list(op.inputs[1:])
    # Of indices and what is for them, rows are on the same axis.
    axes = {axis_of(group.extents.of(tensor)) for tensor in given} - {None}
    axis = axes.pop() if len(axes) == 1 else 0
    with group.once(), tf.control_dependencies(None), tf.name_scope(_SCOPE):
        whole = []
        for position, tensors in enumerate(zip(*group.each(given))):
            if given[position].shape.rank == 0:
                whole.append(given[position])
                continue
            # An operation keeps its static shapes, which a longer input must not contradict.
            shape = given[position].shape.as_list()
            shape[axis] = None
            joined = group.row_weights.concatenated(tensors, axis)
            whole.append(tf.placeholder_with_default(joined, shape))
    for position, tensor in enumerate(whole, 1):
        copying.redirect(op, position, tensor)


def _check_not_trained(group, update):
    variable = update.variable
    if variable is None or not update.depends or not getattr(variable, "trainable", False):
        return
    for tensor in update.op.inputs:
        if group.reach(tensor):
            group.gathered.check_not_mixed(tensor, variable)
    own_training.check(group, is_trained=True)
    raise ValueError(
        "What is trained must be updated by the gradients of all towers, but "
        f"'{variable.name}' is updated by {update.op.type} {update.op.name} "
        f"({line_of(update.op)}) from the rows of one tower. Gradients that were not made by "
        "`tf.gradients`, a tape or an optimizer are gathered by `replicate.TowerOptimizer`: write "
        "`optimizer = replicate.TowerOptimizer(optimizer)`. For what is no gradient, use "
        "`replicate.cross_tower_sum` or `cross_tower_mean`."
    )


def _check_not_chosen_by_rows(group, update):
    for predicate in graph_lib.predicates(update.op):
        if group.reach(predicate):
            raise ValueError(
                "An update that rows choose must be in a `tf.cond` of the second kind, but "
                f"'{update.name}' is updated by {update.op.name} ({line_of(update.op)}) in one of "
                "the first. Call `tf.enable_control_flow_v2()` first, or let the condition choose "
                "the value."
            )


def _unknown_metric(update):
    variable = update.variable
    return ValueError(
        f"Every tower has rows of its own for '{variable.name}', but nothing says how the towers' "
        f"values become one (its aggregation is {_aggregation(variable)}). If they add up, make it "
        "with `synchronization=tf.VariableSynchronization.ON_READ, "
        "aggregation=tf.VariableAggregation.SUM`; else call "
        "`replicate.metrics.declare_merge(variable, merge)` in `model_fn`."
    )


def _warn(updates):
    tf.logging.warning(
        "replicate: nothing says how the towers' updates of %s become one, so that they are made "
        "from the rows of tower 0 alone. Make the variable with synchronization=tf."
        "VariableSynchronization.ON_READ and aggregation=tf.VariableAggregation.MEAN or SUM, or "
        "update it with `replicate.cross_tower_mean` or `cross_tower_sum`; where the order of rows "
        "counts, as in a queue, in a `replicate.merge_call`.",
        ", ".join(f"{update.name} ({line_of(update.op)})" for update in updates),
    )


def _is_added_up(variable):
    return variable is not None and _aggregation(variable) == "SUM"


def _aggregation(variable):
    return getattr(getattr(variable, "aggregation", None), "name", None)


def _is_local(variable):
    collections = (tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.METRIC_VARIABLES)
    return any(variable is one for key in collections for one in tf.get_collection(key))
