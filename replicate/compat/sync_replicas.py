"""Reads private state of a `SyncReplicasOptimizer`: counts of workers, accumulators and tokens."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat import graph as graph_lib

_LOOK_SECS = 0.01  # Until a worker looks again for a token of the next step.


def waits_for_all(optimizer: tf.train.SyncReplicasOptimizer) -> int:
    """Returns the number of workers if a step waits for all of them, else 0.

    It also does if it needs more gradients than there are workers: it lacks that of a lost worker.
    """
    total = optimizer._total_num_replicas
    return total if optimizer._replicas_to_aggregate >= total else 0


def fewest_tokens(optimizer: tf.train.SyncReplicasOptimizer) -> int:
    """Returns how many tokens the first step needs, beside the gradient that each worker sends."""
    return max(0, optimizer._replicas_to_aggregate - optimizer._total_num_replicas)


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


class Tokens:
    """Lets each worker begin each step once.

    After a step, `SyncReplicasOptimizer` puts one token for each worker into a queue, but a worker
    may take any number: if one is slow, another one takes its token, and sends two gradients of the
    next step, which then lacks the slow worker's. So a worker that finds a token of the step that
    it has begun already gives it back.

    Args:
        optimizer: A `SyncReplicasOptimizer` that has applied gradients in this graph.
    """

    def __init__(self, optimizer: tf.train.SyncReplicasOptimizer) -> None:
        queue, step = optimizer._sync_token_queue, optimizer._local_step
        takers = queue.queue_ref.consumers()
        (dequeue,) = (op for op in takers if op.type == "QueueDequeueV2")
        ((assign,),) = (token.consumers() for token in dequeue.outputs)
        with tf.control_dependencies(None):
            with tf.device(step.device):
                # Not every run of a session takes a token: it may run something else.
                self._taken = tf.Variable(
                    tf.zeros([], tf.int64),
                    trainable=False,
                    collections=[],
                    use_resource=True,
                    name="replicate_rounds/taken",
                )
                self._state = [self._taken.read_value(), step.read_value()]
                with tf.control_dependencies([dequeue]):
                    count = self._taken.assign_add(1).op
            with tf.device(queue.queue_ref.device):
                self._give_back = queue.enqueue(step.read_value())
                self._take = step.assign(queue.dequeue()).op
        graph_lib.add_control_inputs(assign, [count])
        self._last = 0, 0

    def begin(self, session: tf.Session) -> None:
        """Begins with the step that the session is at."""
        session.run(self._taken.initializer)
        self._last = self._read(session)

    def settle(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """After a run: exchanges a token of another worker for one of the next step."""
        taken, step = self._read(session)
        while taken != self._last[0] and step == self._last[1]:
            session.run(self._give_back)
            if coord.wait_for_stop(_LOOK_SECS):
                return
            session.run(self._take)
            _, step = self._read(session)
        self._last = taken, step

    def _read(self, session: tf.Session) -> tuple[int, int]:
        taken, step = session.run(self._state)
        return int(taken), int(step)


def _take(accumulator: Any, number: tf.Tensor) -> tf.Tensor:
    """Returns a tensor that takes `number` gradients out of an accumulator when it is fetched."""
    if isinstance(accumulator, tf.SparseConditionalAccumulator):
        return accumulator.take_indexed_slices_grad(number).values
    return accumulator.take_grad(number)
