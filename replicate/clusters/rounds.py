"""Which sessions of a synchronous cluster train together.

A *round* is what the tasks of a cluster train from one start to the next: the chief restores the
variables and calls; each worker makes a session and joins; when all have, the chief opens the
round. Nothing of earlier sessions can reach it, since a worker closes one before it joins with the
next. Whoever comes to a round that is open has trained in it before, and was cut short: all leave
then, and the chief calls the next one.

This needs two variables on a parameter server. One has the number of the round, negative until it
is open, 0 when somebody has called it off; the other one counts who has joined. They are no part of
the model: in no collection and in no checkpoint.
"""

import random
import threading

import tensorflow.compat.v1 as tf

_NONE = 0
_OVER = "A round of synchronous training is over."
_LOOK_SECS = 0.5  # from one look at the round to the next


class Rounds:
    """The rounds of one cluster, seen by one of its tasks.

    The operations are made in the current graph.

    Args:
        num_workers: How many sessions a round consists of, that of the chief included.
    """

    def __init__(self, num_workers):
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

    def call(self, session, coord):
        """Calls a new round, and returns when all workers have joined it; for the chief.

        Raises:
            tf.errors.AbortedError: If it is called off. `MonitoredSession` makes a new session.
        """
        self._current = random.SystemRandom().randint(1, 2**62)
        session.run(self._set_joined, {self._number: 1})
        session.run(self._set_round, {self._number: -self._current})
        tf.logging.info("replicate: waiting for %d workers to join.", self._num_workers - 1)
        while session.run(self._joined) < self._num_workers:
            self._wait(coord)
            if self._read(session) != -self._current:
                _leave(session, coord)

    def open(self, session):
        """Lets all that have joined begin; for the chief."""
        session.run(self._set_round, {self._number: self._current})
        tf.logging.info("replicate: %d workers train together.", self._num_workers)

    def join(self, session, coord):
        """Joins the round that the chief has called, and returns when it is open; for the others.

        Raises:
            tf.errors.AbortedError: If the chief called it after this session was made, which may
                have begun with other values and other input, or if it is called off.
        """
        number = self._read(session)
        if number > 0:
            tf.logging.warning(
                "replicate: this task trained with the others before; all begin again at the last "
                "checkpoint."
            )
            session.run(self._set_round, {self._number: _NONE})
        if number >= 0:
            while self._read(session) >= 0:
                self._wait(coord)
            _leave(session, coord)
        self._current = -number
        session.run(self._join)
        while self._read(session) == number:
            self._wait(coord)
        if self._read(session) != self._current:
            _leave(session, coord)

    def watch(self, session, coord):
        """Has a thread end the session when the round is over before training is."""
        self._stops.clear()
        threading.Thread(
            target=self._watch, args=(session, coord), name="replicate-round", daemon=True
        ).start()

    def stop(self):
        """Ends the thread."""
        self._stops.set()

    def _watch(self, session, coord):
        """Thread: looks whether the round goes on, as long as the session does."""
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
            # The session's own thread may wait for others: closed, it goes on, and finds the error.
            coord.request_stop((type(error), error, error.__traceback__))
            session.close()
        except (tf.errors.CancelledError, RuntimeError):
            pass  # The session is closed.

    def _read(self, session):
        """Returns the number of the round; none if the server is a new one."""
        try:
            return int(session.run(self._round))
        except tf.errors.FailedPreconditionError:
            return _NONE

    def _wait(self, coord):
        coord.wait_for_stop(_LOOK_SECS)
        coord.raise_requested_exception()


def _leave(session, coord):
    """Has `MonitoredSession` make a new session instead of this one."""
    coord.request_stop()
    session.close()
    raise tf.errors.AbortedError(None, None, _OVER)


def _variable(name):
    return tf.Variable(
        tf.zeros([], tf.int64), trainable=False, collections=[], use_resource=True, name=name
    )
