"""Decides which sessions of a synchronous cluster train together.

A *round* is the training of a cluster's tasks from one start to the next. The chief restores the
variables and calls a round. Each worker makes a session and joins. When all have joined, the chief
opens the round. Gradients of earlier sessions cannot reach it, because a worker closes a session
before it joins with the next. A task that finds an open round trained in it before and was cut
short: then all tasks leave, and the chief calls the next round.

This needs two variables on a parameter server. The first is the number of the round: negative until
the round is open, 0 after a task has called it off. The second counts the tasks that have joined.
They do not belong to the model: they are in no collection and in no checkpoint.
"""

from __future__ import annotations

import random
import threading
from typing import Any

import tensorflow.compat.v1 as tf

_NONE = 0
_OVER = "A round of synchronous training is over."
_LOOK_SECS = 0.5  # Interval between reads of the round's number.


class Rounds:
    """Takes part in the rounds of a cluster, for one of its tasks.

    The operations are made in the current graph.

    Args:
        num_workers: Number of sessions in a round, including the chief's.
    """

    def __init__(self, num_workers: int) -> None:
        self._num_workers = num_workers
        with tf.device(tf.train.get_global_step().device), tf.name_scope(None):
            self._round = _variable("replicate_rounds/round")
            self._joined = _variable("replicate_rounds/joined")
            self._number = tf.placeholder(tf.int64, [])
            self._set_round = self._round.assign(self._number).op
            self._set_joined = self._joined.assign(self._number).op
            self._join = self._joined.assign_add(1).op
        self._current = _NONE
        self._stops = threading.Event()

    def call(self, session: Any, coord: Any) -> None:
        """Calls a new round, and waits until all workers have joined it; for the chief.

        Raises:
            tf.errors.AbortedError: If the round is called off. `MonitoredSession` makes a new
                session then.
        """
        # Random, so that a chief that was started again cannot repeat a number.
        self._current = random.SystemRandom().randint(1, 2**62)
        session.run(self._set_joined, {self._number: 1})
        session.run(self._set_round, {self._number: -self._current})
        tf.logging.info("replicate: waiting for %d workers to join.", self._num_workers - 1)
        while session.run(self._joined) < self._num_workers:
            self._wait(coord)
            if self._read(session) != -self._current:
                _leave(session, coord)

    def open(self, session: Any) -> None:
        """Lets all sessions that have joined begin; for the chief."""
        session.run(self._set_round, {self._number: self._current})
        tf.logging.info("replicate: %d workers train together.", self._num_workers)

    def join(self, session: Any, coord: Any) -> None:
        """Joins the round that the chief has called, and waits until it is open; for workers.

        Raises:
            tf.errors.AbortedError: If the chief called the round after this session was made, so
                that the session may have other values and other input; or if the round is called
                off.
        """
        number = self._read(session)
        if number > 0:  # Open, so this task was in it and was cut short: call it off for all.
            tf.logging.warning(
                "replicate: this task trained with the others before; all begin again at the last "
                "checkpoint."
            )
            session.run(self._set_round, {self._number: _NONE})
        if number >= 0:  # No round is called yet; this session is older than the next one.
            while self._read(session) >= 0:
                self._wait(coord)
            _leave(session, coord)
        self._current = -number
        session.run(self._join)
        while self._read(session) == number:
            self._wait(coord)
        if self._read(session) != self._current:
            _leave(session, coord)

    def watch(self, session: Any, coord: Any) -> None:
        """Starts a thread that ends the session if the round is over before training is."""
        self._stops.clear()
        threading.Thread(
            target=self._watch, args=(session, coord), name="replicate-round", daemon=True
        ).start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stops.set()

    def _watch(self, session: Any, coord: Any) -> None:
        """Thread: watches, as long as the session lives, whether the round goes on."""
        current = self._current
        try:
            while not (self._stops.wait(_LOOK_SECS) or coord.should_stop()):
                if self._read(session) != current:
                    tf.logging.warning(
                        "replicate: a task that trains with this one was started again; all begin "
                        "again at the last checkpoint."
                    )
                    raise tf.errors.AbortedError(None, None, _OVER)
        except (tf.errors.AbortedError, tf.errors.UnavailableError) as error:
            # The main thread may be waiting for other workers. Closing the session makes it return,
            # and it finds the error.
            coord.request_stop((type(error), error, error.__traceback__))
            session.close()
        except (tf.errors.CancelledError, RuntimeError):
            pass  # The session is closed.

    def _read(self, session: Any) -> int:
        """Returns the number of the round; 0 if the server was started again and has none."""
        try:
            return int(session.run(self._round))
        except tf.errors.FailedPreconditionError:
            return _NONE

    def _wait(self, coord: Any) -> None:
        coord.wait_for_stop(_LOOK_SECS)
        coord.raise_requested_exception()


def _leave(session: Any, coord: Any) -> None:
    """Makes `MonitoredSession` replace this session by a new one."""
    coord.request_stop()
    session.close()
    raise tf.errors.AbortedError(None, None, _OVER)


def _variable(name: str) -> Any:
    return tf.Variable(
        tf.zeros([], tf.int64), trainable=False, collections=[], use_resource=True, name=name
    )
