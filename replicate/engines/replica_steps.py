"""Steps of tf.distribute's replicas that may be skipped, or that accumulate gradients.

Whether variables are updated is decided for all replicas, so that is done in the cross-replica
context; the wrapped optimizer is called in each replica from there.
"""

import functools
from typing import Any, Callable, List, NamedTuple

import tensorflow.compat.v1 as tf

from replicate.compat import distribute
from replicate.engines import accumulators, replica_gradients


class Own(NamedTuple):
    """What one replica brings to a step.

    Attributes:
        grads_and_vars: Its `(gradient, variable)` pairs, which add up over replicas to those of
            the whole batch.
        apply: Function that applies such pairs in the replica, given them and a function that
            returns those of the whole batch.
        divide: Function from the pairs of the whole batch to the replica's part.
        accumulation: The `Accumulation` of all replicas, None if there is none.
        added: Operations that add the gradients to that of this replica.
    """

    grads_and_vars: list
    apply: Callable
    divide: Callable
    accumulation: Any
    added: List[tf.Operation]


def accumulation(optimizers, grads_and_vars, summed):
    """Merge function: makes the `Accumulation` of all replicas.

    Each adds up its own dense gradients, of which a checkpoint has the sum. Sparse gradients are
    gathered in every step, because the slices of replicas do not add up; so are all gradients where
    the strategy has one variable for all replicas.
    """
    made = optimizers[0].step.accumulation(
        grads_and_vars[0],
        summed[0],
        make=_make_variable,
        make_counter=functools.partial(_make_variable, is_own=False),
    )
    made.prepare(grads_and_vars[0])
    return made


def update(optimizers, own, args, kwargs):
    """Merge function: updates with the replicas' gradients, now or after enough batches."""
    step = optimizers[0].step
    wrapped = optimizers[0].optimizer
    needs_whole = step.may_skip or step.transforms or replica_gradients.has_own_way(wrapped)

    def update_with(by_replica):
        whole = replica_gradients.gather(by_replica) if needs_whole else [None] * len(own)
        if step.may_skip:
            by_replica = [one.divide(pairs) for one, pairs in zip(own, whole)]

        def apply():
            if replica_gradients.applies_once(wrapped):
                return step.apply_now(whole[0], args[0], kwargs[0])
            applies = [
                functools.partial(one.apply, pairs, lambda gathered=gathered: gathered)
                for one, pairs, gathered in zip(own, by_replica, whole)
            ]
            return distribute.call_in_replicas(applies)

        return step.if_finite(whole[0], apply)

    shared = own[0].accumulation
    if shared is None:
        return update_with([one.grads_and_vars for one in own])

    def update_with_all(count):
        reads = [functools.partial(_read, one, count) for one in own]
        return update_with(distribute.call_in_replicas(reads))

    def reset(updated):
        return distribute.call_in_replicas([shared.reset] * len(own), after=updated)

    added = [op for one in own for op in one.added]
    return shared.every(added, update_with_all, reset)


def _read(own, count):
    """Returns this replica's part of what was accumulated; `own` is its `Own`."""
    # Among the replicas of all processes, of which each has its first.
    index = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
    apart = distribute.has_parts(own.accumulation.counter)

    def part(pair):
        gradient, variable = pair
        if not isinstance(gradient, tf.IndexedSlices):
            return pair if apart else own.divide([pair])[0]
        if index == 0:
            return pair
        # All replicas have all slices, and one brings them: an optimizer that does not add up
        # those of a row would take two halves for less than the whole.
        types = gradient.dtype, gradient.indices.dtype
        return replica_gradients.no_slices(variable, *types), variable

    return [part(pair) for pair in own.accumulation.read(count)]


def _make_variable(initial, name, shape=None, is_own=True):
    """Makes a variable of the strategy; takes what `make_variable` takes."""
    aggregation = tf.VariableAggregation.ONLY_FIRST_REPLICA
    synchronization = tf.VariableSynchronization.AUTO
    if is_own:
        synchronization = tf.VariableSynchronization.ON_READ
        if shape is None:
            aggregation = tf.VariableAggregation.SUM
    with tf.distribute.get_strategy().scope():
        return accumulators.make_variable(
            initial,
            name,
            shape,
            synchronization=synchronization,
            aggregation=aggregation,
        )
