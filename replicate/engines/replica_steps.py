"""Runs steps of tf.distribute replicas that may be skipped, or that accumulate gradients.

The decision to update variables is made once for all replicas, in the cross-replica context. From
there, the wrapped optimizer is called in each replica.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from replicate.compat import distribute
from replicate.engines import accumulators, replica_gradients


class Contribution(NamedTuple):
    """One replica's part in a step.

    Attributes:
        grads_and_vars: The replica's `(gradient, variable)` pairs. Their sum over replicas is the
            gradient of the whole batch.
        apply: Function that applies such pairs in the replica. It takes the pairs and a function
            that returns those of the whole batch.
        divide: Function from the pairs of the whole batch to the replica's part.
        accumulation: The `Accumulation` of all replicas, None if there is none.
        added: Operations that add the gradients to the totals of this replica.
    """

    grads_and_vars: list[Any]
    apply: Callable[..., Any]
    divide: Callable[..., Any]
    accumulation: Any
    added: list[Any]


def accumulation(
    optimizers: Sequence[Any], grads_and_vars: Sequence[Any], summed: Sequence[bool]
) -> Any:
    """Merge function: makes the `Accumulation` of all replicas.

    Each replica adds up its dense gradients separately, and a checkpoint holds the sum over
    replicas. Sparse gradients are collected from all replicas in every step, because slices of
    different replicas have different rows; so are all gradients if the strategy has one variable
    for all replicas.
    """
    made = optimizers[0].step.accumulation(
        grads_and_vars[0],
        summed[0],
        make=_make_variable,
        make_counter=functools.partial(_make_variable, per_replica=False),
    )
    made.prepare(grads_and_vars[0])
    return made


def update(
    optimizers: Sequence[Any],
    parts: Sequence[Contribution],
    args: Sequence[Any],
    kwargs: Sequence[Any],
) -> Any:
    """Merge function: updates with the replicas' gradients, now or after enough batches."""
    step = optimizers[0].step
    wrapped = optimizers[0].optimizer
    needs_sum = step.may_skip or step.transforms or replica_gradients.overrides_apply(wrapped)

    def update_with(by_replica: Sequence[Any]) -> Any:
        sums = (
            replica_gradients.all_reduce_gradients(by_replica) if needs_sum else [None] * len(parts)
        )
        if step.may_skip:
            # The replicas then apply parts of the sums that are checked below.
            by_replica = [one.divide(pairs) for one, pairs in zip(parts, sums)]

        def apply() -> Any:
            if replica_gradients.applies_once(wrapped):
                return step.apply_now(sums[0], args[0], kwargs[0])
            applies = [
                functools.partial(one.apply, pairs, lambda total=total: total)
                for one, pairs, total in zip(parts, by_replica, sums)
            ]
            return distribute.call_in_replicas(applies)

        return step.if_finite(sums[0], apply)

    shared = parts[0].accumulation
    if shared is None:
        return update_with([one.grads_and_vars for one in parts])

    def update_with_all(count: Any) -> Any:
        reads = [functools.partial(_read, one, count) for one in parts]
        return update_with(distribute.call_in_replicas(reads))

    def reset(updated: Any) -> Any:
        return distribute.call_in_replicas([shared.reset] * len(parts), after=updated)

    added = [op for one in parts for op in one.added]
    return shared.every(added, update_with_all, reset)


def _read(part: Contribution, count: Any) -> list[Any]:
    """Returns this replica's part of the accumulated gradients, as pairs."""
    # The index among the replicas of all processes, not of this one alone.
    index = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    apart = distribute.has_parts(part.accumulation.counter)

    def part_of(pair: Any) -> Any:
        gradient, variable = pair
        if not isinstance(gradient, tf.IndexedSlices):
            # One variable for all replicas holds the sum over them.
            return pair if apart else part.divide([pair])[0]
        if index == 0:
            return pair
        # All replicas have all slices, and only the first one contributes them. Dividing them
        # would repeat each row once per replica, and some optimizers do not add up repeated rows.
        types = gradient.dtype, gradient.indices.dtype
        return replica_gradients.no_slices(variable, *types), variable

    return [part_of(pair) for pair in part.accumulation.read(count)]


def _make_variable(
    initial: Callable[[], Any], name: str, shape: Any = None, per_replica: bool = True
) -> Any:
    """Makes a variable of the strategy; takes the arguments of `make_variable`."""
    aggregation = tf.VariableAggregation.ONLY_FIRST_REPLICA
    synchronization = tf.VariableSynchronization.AUTO
    if per_replica:
        synchronization = tf.VariableSynchronization.ON_READ
        if shape is None:  # Slices, whose shape changes, are the same in all replicas already.
            aggregation = tf.VariableAggregation.SUM
    with tf.distribute.get_strategy().scope():
        return accumulators.make_variable(
            initial,
            name,
            shape,
            synchronization=synchronization,
            aggregation=aggregation,
        )
