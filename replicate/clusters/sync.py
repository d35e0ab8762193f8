"""Runs a `SyncReplicasOptimizer`, whose workers wait for one another's gradients, in sessions.

Its parts are in the graph: on the parameter servers, gradients are added up, and a queue has a
token for each worker and step. What is left is a thread of the chief that applies the sums and puts
the tokens in. TensorFlow's own hook has that thread close the queue when the chief's session ends,
by which all that come later end at once, without a step and without an error; and it keeps the
chief for two minutes, since the thread waits for gradients that never come.

Nor does TensorFlow's hook mind who was there before. A task that is killed leaves a part of its
gradients behind, by which a part of the variables may be updated already. So whenever a task comes
back, all begin again at the last checkpoint: see `replicate.clusters.rounds`.
"""

import threading

import tensorflow.compat.v1 as tf

from replicate.clusters.rounds import Rounds
from replicate.compat import sync_replicas

# What a session's calls end with when the session is closed.
_CLOSED = (tf.errors.CancelledError, RuntimeError)


class SyncHook(tf.train.SessionRunHook):
    """What a worker's session needs to train with a `SyncReplicasOptimizer`.

    If a step needs the gradients of all workers, training begins when all are there. If one of them
    or the chief is started again, all make their sessions anew, from the last checkpoint on; so
    that the same rows come again too, let `input_fn` skip the rows before the global step:
    `dataset.skip(tf.train.get_global_step() * batch_size)`.

    If it needs fewer, workers come and go, and gradients of those that are late are dropped.

    Args:
        optimizer: The `tf.train.SyncReplicasOptimizer`.
        is_chief: Whether this worker is the chief, which applies the gradients of all.
        num_tokens: How many steps workers may begin before all have done the first, which makes
            its gradients stale. With 0, every step is that of one device on all workers' rows.
    """

    def __init__(self, optimizer, is_chief, num_tokens=0):
        self._optimizer = optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens

    def begin(self):
        """Makes the operations that it runs.

        Raises:
            ValueError: If no gradients were applied.
        """
        optimizer = self._optimizer
        if getattr(optimizer, "local_step_init_op", None) is None:
            raise ValueError(
                "A hook for synchronous training runs what `apply_gradients` makes, but "
                "`apply_gradients` or `minimize` was not called. Call it in `model_fn` first."
            )
        self._is_ready = optimizer.ready_for_local_init_op
        workers = sync_replicas.waits_for_all(optimizer)
        self._rounds = Rounds(workers) if workers > 1 else None
        if self._is_chief:
            self._leftovers = sync_replicas.Leftovers(optimizer)
            self._init = tf.group(optimizer.chief_init_op)
            self._tokens = optimizer.get_init_tokens_op(self._num_tokens)
            self._updates = optimizer.get_chief_queue_runner().enqueue_ops

    def after_create_session(self, session, coord):
        """Lets the worker join the others, and the chief apply gradients."""
        missing = session.run(self._is_ready)
        if len(missing):
            raise RuntimeError(
                "Variables must have values before workers train together, but "
                f"{', '.join(sorted(name.decode() for name in missing))} have none. They belong "
                "into the collection `tf.GraphKeys.GLOBAL_VARIABLES`, which the chief initialises."
            )
        if self._is_chief:
            self._lead(session, coord)
        else:
            if self._rounds:
                self._rounds.join(session, coord)
            session.run(self._optimizer.local_step_init_op)
        if self._rounds:
            self._rounds.watch(session, coord)

    def after_run(self, run_context, run_values):
        """Lets what comes after the last step, as saving, be."""
        del run_values
        if self._rounds and run_context.stop_requested:
            self._rounds.stop()

    def end(self, session):
        """Ends as the session does."""
        del session
        if self._rounds:
            self._rounds.stop()

    def _lead(self, session, coord):
        """Lets all begin, and applies their gradients in a thread."""
        if self._rounds:
            self._rounds.call(session, coord)
        self._leftovers.clear(session)
        session.run(self._init)
        session.run(self._tokens)
        if self._rounds:
            self._rounds.open(session)
        for update in self._updates:
            # Nobody waits for it: it ends when its session is closed.
            threading.Thread(
                target=_apply_gradients,
                args=(session, coord, update),
                name="replicate-sync",
                daemon=True,
            ).start()


def _apply_gradients(session, coord, update):
    """Thread: applies gradients whenever all are there, until the session is closed."""
    try:
        while not coord.should_stop():
            session.run(update)
    except _CLOSED:
        pass
    except Exception as error:
        # The session's own thread waits for a token that will never come: closed, it goes on, and
        # finds the error.
        coord.request_stop((type(error), error, error.__traceback__))
        session.close()


def check_not_synchronised(grads_and_vars):
    """Raises if gradients come from a `SyncReplicasOptimizer` that wraps a `TowerOptimizer`.

    Args:
        grads_and_vars: List of `(gradient, variable)` pairs.
    """
    for gradient, _ in grads_and_vars:
        values = getattr(gradient, "values", gradient)
        is_in_graph = tf.is_tensor(values) and hasattr(values, "graph")
        if is_in_graph and values.op.type.endswith("AccumulatorTakeGradient"):
            raise ValueError(
                "Gradients are gathered from towers before they are from workers, since each "
                "worker hands on one for all its towers, but a `SyncReplicasOptimizer` wraps a "
                "`TowerOptimizer`. Write "
                "`replicate.TowerOptimizer(tf.train.SyncReplicasOptimizer(optimizer, …))`."
            )
