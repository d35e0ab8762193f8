"""Metrics of batches: what adds up one value a batch, and counts batches, not rows.

`tf.metrics.mean(loss)` divides the sum of the batches' losses by their number. Over towers its sum
takes the loss of the whole batch, and its count is 1 for all of them, while a mean over rows adds
up what every tower has of both. Which of the two a metric is, the graph tells: what is divided by
a count that no row enters, and what that sums.
"""

import tensorflow.compat.v1 as tf

from replicate.compat import copying
from replicate.compat.graph import id_of
from replicate.graphs import (
    DIVISIONS,
    MEAN,
    SUM,
    WHOLE,
    WholeLoss,
    extents,
    line_of,
    state,
    static_value,
)

_SCOPE = "replicate/updates/"
_MOST_OPERATIONS = 100  # Between a count and its metric.


def find(group, updates, variables):
    """Returns the ids of the operations that add what the whole batch makes of a value, once.

    All others add up what every tower has.

    Args:
        group: The `Towers`.
        updates: Those that add to variables whose values are added up over towers.
        variables: All variables, by the id of their operation.
    """
    by_variable = {}
    for update in updates:
        by_variable.setdefault(id(update.variable), []).append(update)
    metrics = [(update, _metric(update, by_variable, variables)) for update in updates]
    of_batches, of_rows, divided = set(), set(), set()
    for count, sums in metrics:
        divided.update(id_of(update.op) for update in sums)
        if sums or not count.depends:
            chosen = of_batches if _counts_batches(group, count, sums) else of_rows
            chosen.update(id_of(update.op) for update in [count, *sums])
    for update, sums in metrics:
        # What is neither divided nor divides, such as a sum of losses.
        by_itself = update.depends and not sums and id_of(update.op) not in divided
        if by_itself and group.extents.of(update.op.inputs[1]) == MEAN:
            of_batches.add(id_of(update.op))
    return of_batches - of_rows


def _metric(count, by_variable, variables):
    """Returns the updates of what a metric divides by what `count` updates."""
    divided = {id(one) for one in _divided_by(count.variable, variables)}
    return [update for key in divided - {id(count.variable)} for update in by_variable.get(key, [])]


def _counts_batches(group, count, sums):
    if not count.depends:
        number = count.op.inputs[1]
        if not sums:
            return not _is_number_of_rows(group, number)
        return all(_is_of_batch(group, update.op.inputs[1], number) for update in sums)
    kinds = [group.extents.of(update.op.inputs[1]) for update in [count, *sums]]
    return None not in kinds and set(kinds) != {SUM}


def _divided_by(count, variables):
    """Yields the variables that a metric divides by another one."""
    seen, pending = set(), list(count.op.outputs)
    while pending and len(seen) < _MOST_OPERATIONS:
        tensor = pending.pop()
        for op in tensor.consumers():
            if op.type in DIVISIONS:
                if op.inputs[1] is tensor:
                    yield from _variables_in(op.inputs[0], variables)
            elif id_of(op) not in seen and _is_of(op, count):
                seen.add(id_of(op))
                pending += op.outputs


def _is_of(op, variable):
    """Whether an operation computes with a variable, and changes no other one."""
    return not state.writes(op) or state.source(state.handles(op)[0]) is variable.op


def _variables_in(tensor, variables):
    """Yields the variables whose values a tensor is computed from."""
    seen, pending = set(), [tensor.op]
    while pending and len(seen) < _MOST_OPERATIONS:
        op = pending.pop()
        if id_of(op) in variables:
            yield variables[id_of(op)]
        elif id_of(op) not in seen:
            seen.add(id_of(op))
            # What a variable is updated with is not what it is.
            pending += [given.op for given in (op.inputs[:1] if state.writes(op) else op.inputs)]


def _is_of_batch(group, value, number):
    """Whether a metric adds `value` once a batch, dividing by how often, `number`, a constant."""
    kind, rows = group.extents.of(value), group.boundary.rows
    summand = value.op.inputs[0] if value.op.type == "Sum" else value
    if not value.dtype.is_floating:
        return False
    if kind in (MEAN, WHOLE) or summand.shape.rank == 0:
        return True
    if rows is None:  # Then what is constant is no number of rows.
        return kind is not None or summand.shape.is_fully_defined()
    if kind == SUM:
        known = static_value(number)
        return rows > 1 and known is not None and bool((known == 1).all())
    size = summand.shape.num_elements()
    return size is not None and size % rows != 0


def _is_number_of_rows(group, number):
    known = static_value(number)
    return known is not None and bool((known == group.boundary.rows).all())


def merge(group, update):
    """Lets an update of a metric of batches take what the whole batch makes of its value.

    Args:
        group: The `Towers`.
        update: One of those that `find` found.
    """
    if not update.depends:
        return  # It counts batches.
    merged, is_known = _whole(group, update.op.inputs[1])
    copying.redirect(update.op, 1, merged)
    if not is_known:
        group.averaged.append((update.name, update.op))


def warn(group):
    """Has said what was taken for a mean or a sum."""
    if group.averaged:
        tf.logging.warning(
            "replicate: %s sums one value a batch, of which nothing says how the towers' become "
            "the batch's. They are taken for what `loss_reduction` says: by default, for means "
            "over rows, and averaged. Give the metric the values of the rows, or a "
            "`cross_tower_mean` or `cross_tower_sum`.",
            ", ".join(f"{name} ({line_of(op)})" for name, op in group.averaged),
        )


def look_for_statistics(group, updates):
    """Has said which metrics are made of what the rows of one tower have in common.

    Args:
        group: The `Towers`.
        updates: Those that add to metrics.
    """
    for update in updates:
        op = _mixing(group, update.op.inputs[1]) if update.depends else None
        if op is not None and op not in [known for _, known in group.of_statistics]:
            group.of_statistics.append((update.name, op))
    if group.of_statistics:
        tf.logging.warning(
            "replicate: metrics are made of rows and of what the rows of one tower have in common, "
            "such as their mean, so that they are not those of one device: %s. Take "
            "`replicate.cross_tower_mean` of that, or metrics that keep sums.",
            ", ".join(f"{name} ({line_of(op)})" for name, op in group.of_statistics),
        )


def _mixing(group, value):
    """Returns an operation near a value that takes rows and what these have in common, or None."""
    group.extents.of(value)
    seen, pending = set(), [value.op]
    while pending and len(seen) < _MOST_OPERATIONS:
        op = pending.pop(0)
        if id_of(op) in group.extents.mixed:
            return op
        if id_of(op) not in seen:
            seen.add(id_of(op))
            pending += [given.op for given in op.inputs if not group.copies.is_boundary(given)]
    return None


def _whole(group, value):
    """Returns what a value is for the rows of all towers, and whether the graph tells.

    What it does not tell is taken for what `loss_reduction` says, as parts of a loss are.
    """
    merged = extents.merged(group, value)
    if merged is not None:
        return merged, True
    if value.shape.rank == 0:
        loss = WholeLoss(group, value, is_metric=True)
        return loss.value(), not loss.unknown
    with group.once(), tf.control_dependencies(None), tf.name_scope(_SCOPE):
        return group.total(value, averaged=True), False
