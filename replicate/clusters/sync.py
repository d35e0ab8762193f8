"""Runs a `SyncReplicasOptimizer`, whose workers wait for one another's gradients, in sessions.

Most of it is in the graph: the parameter servers add up gradients, and a queue holds a token for
each worker and step. A thread of the chief applies the sums and enqueues the tokens. In
TensorFlow's hook, that thread closes the queue when the chief's session ends. Then workers that
start later end at once, without a step and without an error, and the chief takes two minutes to
end, because the thread waits for gradients that never come.

TensorFlow's hook also ignores earlier sessions. A task that is killed leaves some of its gradients
in the accumulators, and some of the variables may be updated already. So whenever a task comes
back, all tasks begin again at the last checkpoint: see `replicate.clusters.rounds`.
"""

from __future__ import annotations

import threading
from typing import Any, Iterable

import tensorflow.compat.v1 as tf

from replicate.clusters.rounds import Rounds
from replicate.compat import sync_replicas

# Errors of a session's calls after the session is closed.
_CLOSED = (tf.errors.CancelledError, RuntimeError)


class SyncHook(tf.train.SessionRunHook):
    """Prepares a worker's session to train with a `SyncReplicasOptimizer`.

    If a step needs at least as many gradients as there are workers, training begins when all have
    joined. If a worker or the chief is started again, all of them make new sessions, which start at
    the last checkpoint. To repeat the same rows as well, let `input_fn` skip the rows before the
    global step: `dataset.skip(tf.train.get_global_step() * batch_size)`.

    If a step needs fewer gradients, workers may join and leave, and late gradients are dropped.

    Args:
        optimizer: The `tf.train.SyncReplicasOptimizer`.
        is_chief: Whether this worker is the chief, which applies the gradients of all.
        num_tokens: Number of gradients, an integer, that workers may send for the first step
            beside one each. None: as many as the step needs, 0 unless `replicas_to_aggregate` is
            greater than `total_num_replicas`. Then every step equals that of one device on the
            rows of all its gradients. With more, as by TensorFlow's default, workers begin further
            steps before all have done the first, and their gradients are stale.
    """

    def __init__(self, optimizer: Any, is_chief: bool, num_tokens: int | None = None) -> None:
        self._optimizer = optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens

    def begin(self) -> None:
        """Makes the operations that the hook runs.

        Raises:
            ValueError: If no gradients were applied.
        """
        optimizer = self._optimizer
        if getattr(optimizer, "local_step_init_op", None) is None:
            raise ValueError(
                "A hook for synchronous training runs operations of `apply_gradients`, but "
                "`apply_gradients` or `minimize` was not called. Call it in `model_fn` first."
            )
        self._is_ready = optimizer.ready_for_local_init_op
        workers = sync_replicas.waits_for_all(optimizer)
        self._rounds = Rounds(workers) if workers > 1 else None
        fewest = sync_replicas.fewest_tokens(optimizer)
        num_tokens = fewest if self._num_tokens is None else self._num_tokens
        # With tokens, workers may begin the first step more than once.
        is_exact = self._rounds is not None and not num_tokens
        self._own_tokens = sync_replicas.Tokens(optimizer) if is_exact else None
        if self._is_chief:
            self._leftovers = sync_replicas.Leftovers(optimizer)
            self._init = tf.group(optimizer.chief_init_op)
            self._tokens = optimizer.get_init_tokens_op(num_tokens)
            self._updates = optimizer.get_chief_queue_runner().enqueue_ops

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Joins the round; on the chief, calls it and starts to apply gradients.

        Raises:
            RuntimeError: If a variable has no value, which would block the workers.
        """
        missing = session.run(self._is_ready)
        if len(missing):
            raise RuntimeError(
                "Variables must have values before workers train together, but "
                f"{', '.join(sorted(name.decode() for name in missing))} have none. Add them to "
                "the collection `tf.GraphKeys.GLOBAL_VARIABLES`, which the chief initialises."
            )
        if self._is_chief:
            self._lead(session, coord)
        else:
            if self._rounds:
                self._rounds.join(session, coord)
            session.run(self._optimizer.local_step_init_op)
        self._coord = coord
        if self._own_tokens:
            self._own_tokens.begin(session)
        if self._rounds:
            self._rounds.watch(session, coord)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Lets the worker wait for its next step.

        After the last one, stops watching the round: saving must not be interrupted.
        """
        del run_values
        if self._own_tokens:
            self._own_tokens.settle(run_context.session, self._coord)
        if self._rounds and run_context.stop_requested:
            self._rounds.stop()

    def end(self, session: Any) -> None:
        """Stops watching the round."""
        del session
        if self._rounds:
            self._rounds.stop()

    def _lead(self, session: Any, coord: Any) -> None:
        """Lets all workers begin, and applies their gradients in a thread."""
        if self._rounds:
            self._rounds.call(session, coord)
        self._leftovers.clear(session)
        session.run(self._init)
        session.run(self._tokens)
        if self._rounds:
            self._rounds.open(session)
        for update in self._updates:
            # Not joined: the thread ends when its session is closed.
            threading.Thread(
                target=_apply_gradients,
                args=(session, coord, update),
                name="replicate-sync",
                daemon=True,
            ).start()


def _apply_gradients(session: Any, coord: Any, update: Any) -> None:
    """Thread: applies each sum of gradients that is complete, until the session is closed."""
    try:
        while not coord.should_stop():
            session.run(update)
    except _CLOSED:
        pass
    except Exception as error:
        # The main thread waits for a token that will never come. Closing the session makes it
        # return, and it finds the error.
        coord.request_stop((type(error), error, error.__traceback__))
        session.close()


def check_not_synchronised(grads_and_vars: Iterable[Any]) -> None:
    """Raises if gradients come from a `SyncReplicasOptimizer` that wraps a `TowerOptimizer`.

    Args:
        grads_and_vars: List of `(gradient, variable)` pairs.
    """
    for gradient, _ in grads_and_vars:
        values = getattr(gradient, "values", gradient)
        is_in_graph = tf.is_tensor(values) and hasattr(values, "graph")
        if is_in_graph and values.op.type.endswith("AccumulatorTakeGradient"):
            raise ValueError(
                "Gradients must be summed over towers before they are summed over workers, because "
                "each worker sends one gradient for all its towers, but a `SyncReplicasOptimizer` "
                "wraps a `TowerOptimizer`. Write "
                "`replicate.TowerOptimizer(tf.train.SyncReplicasOptimizer(optimizer, …))`."
            )
