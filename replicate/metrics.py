"""Merges the variables that each tower has of its own into tower 0's, once per step.

Such variables are metric variables, and `ON_READ` variables like batch norm's moving statistics.
Tower 0's variable is the one that is saved and read; a later tower's copy only serves within a
step: it starts afresh, takes the tower's update, and is merged. How, its `aggregation` says:

    SUM                  copies start at their initial value; tower 0's grows by theirs
    MEAN                 copies start at tower 0's value; it becomes the mean, weighted by rows
    ONLY_FIRST_REPLICA   copies start at tower 0's value and are forgotten

or a merge declared with `declare_merge`.
"""

from typing import Callable, List, NamedTuple

import tensorflow.compat.v1 as tf

from replicate import rendezvous
from replicate import updates as updates_lib
from replicate.compat import graph as graph_lib

__all__ = ("declare_merge",)


class Declaration(NamedTuple):
    """What `declare_merge` was told by one tower."""

    variables: List[tf.Variable]
    merge: Callable


class _Group(NamedTuple):
    """Variables that are merged together.

    Attributes:
        variables: For each of N towers the list of its variables.
        merge: Function from N lists of values to the list of merged values. None: keep tower 0's.
        from_first: Whether copies start at tower 0's values instead of their initial ones.
    """

    variables: List[List[tf.Variable]]
    merge: Callable
    from_first: bool


def declare_merge(variables, merge):
    """Declares how the towers' values of metric variables become one.

    For metrics that keep something else than sums, in variables that each tower updates with its
    own rows, such as a largest value:

        largest = tf.get_variable("largest", [], initializer=tf.constant_initializer(-np.inf),
                                  collections=[tf.GraphKeys.LOCAL_VARIABLES])
        replicate.metrics.declare_merge(largest, tf.reduce_max)

    Sums need no declaration if the variable is made with
    `synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.SUM`,
    as `tf.metrics` and Keras metrics do. Outside towers this does nothing.

    Args:
        variables: A local variable, or a list of those that are merged together. Its initial value
            must be neutral: merging it in changes nothing.
        merge: Function of one tensor `[N, ...]` for each variable, the values of N towers stacked,
            that returns the merged value `[...]`, or a list of them. Tower 0's value covers all
            earlier batches, the others cover this step alone.

    Raises:
        ValueError: If a variable is global, and so shared by the towers.
        TypeError: If `merge` cannot be called.
    """
    if not callable(merge):
        raise TypeError(f"`merge` must be a function of stacked values, but is {merge!r}.")
    tower = rendezvous.current()
    if tower is None:
        return
    flat = list(variables) if isinstance(variables, (list, tuple)) else [variables]
    own = {id(copy) for record in tower.towers.variables.per_tower for copy in record}
    for variable in flat:
        if id(variable) not in own:
            raise ValueError(
                f"Only variables that each tower has of its own are merged, but '{variable.name}' "
                "is shared by all. Make it with `collections=[tf.GraphKeys.LOCAL_VARIABLES]`."
            )
    tower.declarations.append(Declaration(flat, merge))


def merge_metrics(group, updates):
    """Returns the operation that runs the update operations of all towers and merges the metrics.

    Args:
        group: The `Towers`.
        updates: Update operations of all metrics of all towers.

    Raises:
        ValueError: If a variable that a metric updates says nowhere how it is merged.
    """
    reached = updates_lib.ancestors(updates)
    groups = _groups(group, reached, strict=True)
    with tf.name_scope("replicate/metrics/"), tf.control_dependencies(updates):
        return tf.group(*_merge(group, groups), *updates)


def merge_statistics(group, train_ops):
    """Returns the operations that merge what the train operations of the towers update.

    An operation that applies gradients without being part of the train operation, as hooks run
    those of a GAN, gets the merges of what runs with it as control inputs.

    Args:
        group: The `Towers`.
        train_ops: One train operation per tower. Of the later towers' only the updates of their
            own variables are run.

    Raises:
        ValueError: If such a variable is updated in control flow of TensorFlow 1, or is `ON_READ`
            and says nowhere how it is merged.
    """
    if not group.variables.per_tower:
        return []
    reached = updates_lib.ancestors(train_ops)
    merges = _merge_statistics_of(group, reached)
    for applied in group.applied:
        if applied not in reached:
            before = _merge_statistics_of(group, updates_lib.ancestors([applied]))
            graph_lib.add_control_inputs(applied, before)
    return merges


def _merge_statistics_of(group, reached):
    """Returns the operations that merge what the operations `reached` update, if none does yet."""
    groups = [
        one
        for one in _groups(group, reached, strict=False)
        if id(one.variables[-1][0]) not in group.variables.restarted
    ]
    writes = [
        op
        for one in groups
        for variables in one.variables
        for variable in variables
        for op in updates_lib.writes(variable)
        if op in reached
    ]
    for op in writes:
        if op.type in updates_lib.CONTROL_FLOW_V1:
            raise ValueError(
                "A variable that each tower has of its own must not be updated in a `tf.cond` or "
                f"`tf.while_loop` of the first kind, but {op.inputs[0].op.name} is. Call "
                "`tf.enable_control_flow_v2()` first."
            )
    with tf.name_scope("replicate/statistics/"), tf.control_dependencies(updates_lib.ends(writes)):
        return _merge(group, groups)


def warn_of_unmerged_statistics(group):
    """Warns of statistics with updates that are not known to run, so that nothing merges them.

    Args:
        group: The `Towers`, built for training, what they update merged.
    """
    unmerged = sorted(
        first.name
        for first, *later in group.variables.of_model
        if id(later[-1]) not in group.variables.restarted and updates_lib.writes(first)
    )
    if unmerged:
        tf.logging.warning(
            "replicate: neither the train operation nor an optimizer waits for the updates of %s. "
            "If nothing runs them, these stay as they are: put those in `tf.GraphKeys.UPDATE_OPS` "
            "into `tf.control_dependencies` around `minimize`. A hook updates tower 0's alone.",
            ", ".join(unmerged),
        )


def _groups(group, reached, strict):
    """Returns the groups of variables that the operations `reached` update."""
    declared = {}
    for declarations in zip(*(tower.declarations for tower in group.towers)):
        for variable in declarations[0].variables:
            declared[id(variable)] = declarations
    groups, done = [], set()
    for record in group.variables.per_tower:
        first = record[0]
        if id(first) in done or not any(
            op in reached for v in record for op in updates_lib.writes(v)
        ):
            continue
        if id(first) in declared:
            declarations = declared[id(first)]
            done.update(id(variable) for variable in declarations[0].variables)
            variables = [declaration.variables for declaration in declarations]
            groups.append(_Group(variables, _stacked(declarations[0].merge), False))
            continue
        variables = [[variable] for variable in record]
        aggregation = getattr(first.aggregation, "name", None)
        if aggregation == "SUM":
            groups.append(_Group(variables, _sum, False))
        elif aggregation == "MEAN":
            groups.append(_Group(variables, _weighted_mean(group), True))
        elif aggregation in ("ONLY_FIRST_REPLICA", "ONLY_FIRST_TOWER"):
            groups.append(_Group(variables, None, True))
        elif strict or first.synchronization == tf.VariableSynchronization.ON_READ:
            raise ValueError(
                f"Every tower updates its own '{first.name}', but nothing says how the towers' "
                f"values become one (its aggregation is {aggregation}). If they add up, make it "
                "with `synchronization=tf.VariableSynchronization.ON_READ, "
                "aggregation=tf.VariableAggregation.SUM`; else call "
                "`replicate.metrics.declare_merge(variable, merge)` in `model_fn`."
            )
    return groups


def _merge(group, groups):
    """Returns the operations that merge `groups`, under the current control dependencies."""
    operations = []
    for one in groups:
        initial = [_initial_values(variables) for variables in one.variables]
        restarts = [
            restart
            for variables, starts in zip(one.variables[1:], initial[1:])
            for restart in _start_afresh(group, one, variables, starts)
        ]
        if one.merge is None:
            continue
        with tf.control_dependencies(restarts):
            values = [[variable.read_value() for variable in own] for own in one.variables]
        values = [
            [group.row_weights.mask(index, *pair) for pair in zip(own, initial[index])]
            for index, own in enumerate(values)
        ]
        with tf.control_dependencies([value for own in values for value in own]):
            for variable, value in zip(one.variables[0], one.merge(values)):
                operations.append(variable.assign(value, read_value=False))
    return operations


def follow_first_tower(group):
    """Gives later towers tower 0's value of statistics that no operation merges in this graph.

    In evaluation, or in a frozen layer, towers only read them, and no checkpoint has the copies.

    Args:
        group: The `Towers`, what they update merged.
    """
    for record in group.variables.of_model:
        one = _Group([[variable] for variable in record], None, True)
        for copy in record[1:]:
            if id(copy) not in group.variables.restarted:
                _start_afresh(group, one, [copy], [None])


def _start_afresh(group, one, variables, initial):
    """Makes each use of a later tower's `variables` wait until the returned operations set them."""
    restarts = []
    for variable, first, start in zip(variables, one.variables[0], initial):
        uses = updates_lib.uses(variable)
        first_writes = updates_lib.writes(first)
        with tf.control_dependencies(None):
            value = first.read_value() if one.from_first else start
            restart = variable.assign(value, read_value=False)
        for use in uses:
            graph_lib.add_control_inputs(use, [restart])
        if one.from_first:
            for write in first_writes:
                graph_lib.add_control_inputs(write, [restart])
        restarts.append(restart)
        group.variables.restarted.add(id(variable))
    return restarts


def _initial_values(variables):
    with tf.control_dependencies(None):
        return [tf.convert_to_tensor(variable.initial_value) for variable in variables]


def _sum(values):
    return [tf.add_n(list(towers_values)) for towers_values in zip(*values)]


def _weighted_mean(group):
    def mean(values):
        return [
            tf.add_n(
                [
                    value * group.row_weights.of(index, value.dtype)
                    for index, value in enumerate(towers_values)
                ]
            )
            for towers_values in zip(*values)
        ]

    return mean


def _stacked(merge):
    def merged(values):
        result = merge(*(tf.stack(towers_values) for towers_values in zip(*values)))
        return result if isinstance(result, (list, tuple)) else [result]

    return merged
