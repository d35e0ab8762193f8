"""Reads private state of a `SyncReplicasOptimizer`: counts of workers, accumulators and tokens."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


def waits_for_all(optimizer: tf.train.SyncReplicasOptimizer) -> int:
    """Returns the number of workers if a step waits for all of them, else 0."""
    total = optimizer._total_num_replicas
    return total if optimizer._replicas_to_aggregate == total else 0


class Leftovers:
    """Gradients and tokens on the parameter servers, left by a step that was cut short.

    Args:
        optimizer: A `SyncReplicasOptimizer` that has applied gradients in this graph.
    """

    def __init__(self, optimizer: tf.train.SyncReplicasOptimizer) -> None:
        self._number = tf.placeholder(tf.int32, [])
        self._numbers: list[Any] = []
        self._takes: list[Any] = []
        for accumulator, device in optimizer._accumulator_list:
            with tf.device(device):
                self._numbers.append(accumulator.num_accumulated())
                taken = _take(accumulator, self._number)
                self._takes.append(taken.op)
        queue = optimizer._sync_token_queue
        with tf.device(queue.queue_ref.device):
            self._tokens = queue.dequeue_many(queue.size()).op

    def clear(self, session: tf.Session) -> None:
        """Removes all of them. No worker may add gradients or tokens meanwhile."""
        session.run(self._tokens)
        for number, take in zip(session.run(self._numbers), self._takes):
            if number:  # Taking from an empty accumulator would block.
                session.run(take, {self._number: number})


def _take(accumulator: Any, number: tf.Tensor) -> tf.Tensor:
    """Returns a tensor that takes `number` gradients out of an accumulator when it is fetched."""
    if isinstance(accumulator, tf.SparseConditionalAccumulator):
        return accumulator.take_indexed_slices_grad(number).values
    return accumulator.take_grad(number)
