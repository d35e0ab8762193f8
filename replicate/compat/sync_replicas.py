"""What a `SyncReplicasOptimizer` keeps to itself: how many take part, accumulators and tokens."""

import tensorflow.compat.v1 as tf


def waits_for_all(optimizer):
    """Returns how many workers a step waits for; 0 if it does without some of them."""
    total = optimizer._total_num_replicas
    return total if optimizer._replicas_to_aggregate == total else 0


class Leftovers:
    """Gradients and tokens that a step which was cut short left on the parameter servers.

    Args:
        optimizer: A `SyncReplicasOptimizer` that has applied gradients in this graph.
    """

    def __init__(self, optimizer):
        self._number = tf.placeholder(tf.int32, [])
        self._numbers, self._takes = [], []
        for accumulator, device in optimizer._accumulator_list:
            with tf.device(device):
                self._numbers.append(accumulator.num_accumulated())
                taken = _take(accumulator, self._number)
                self._takes.append(taken.op)
        queue = optimizer._sync_token_queue
        with tf.device(queue.queue_ref.device):
            self._tokens = queue.dequeue_many(queue.size()).op

    def clear(self, session):
        """Removes all of them. Nobody may be adding to them."""
        session.run(self._tokens)
        for number, take in zip(session.run(self._numbers), self._takes):
            if number:  # None would be waited for.
                session.run(take, {self._number: number})


def _take(accumulator, number):
    """Returns the tensor by which `number` gradients are taken out of an accumulator."""
    if isinstance(accumulator, tf.SparseConditionalAccumulator):
        return accumulator.take_indexed_slices_grad(number).values
    return accumulator.take_grad(number)
