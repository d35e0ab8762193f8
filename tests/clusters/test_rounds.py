"""Rounds of synchronous training, of several sessions on one parameter server."""

import contextlib
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import replicate
from replicate.compat import sync_replicas

OVER = "A round of synchronous training is over"
_LIMIT_S = 60
_ROWS = np.arange(18.0).reshape(6, 3)


class Task:
    """A task of a synchronous job: it makes one session after the other, as MonitoredSession does.

    Initial values take the place of a checkpoint.
    """

    def __init__(self, target, index, num_workers=2, num_gradients=None, sparse=False):
        self._target, self._is_chief = target, index == 0
        with tf.Graph().as_default() as self._graph:
            self.rows = tf.placeholder(tf.float64, [None, 3])
            self.weights = tf.get_variable("w", [3], tf.float64, tf.zeros_initializer())
            bias = tf.get_variable("b", [], tf.float64, tf.zeros_initializer())
            weights = tf.gather(self.weights, [0, 1, 2]) if sparse else self.weights
            loss = tf.reduce_mean(tf.squared_difference(self.rows, weights + bias))
            sgd = tf.train.GradientDescentOptimizer(0.25)
            needed = num_gradients or num_workers
            sync = tf.train.SyncReplicasOptimizer(sgd, needed, num_workers)
            optimizer = replicate.TowerOptimizer(sync)
            step = tf.train.get_or_create_global_step()
            # Tasks of a cluster are processes with local variables of their own.
            with tf.name_scope(f"task_{index}"):
                self.train_op = optimizer.minimize(loss, step)
                self.hook = optimizer.make_session_run_hook(self._is_chief)
                self.hook.begin()
            self.global_step, self.tokens = step, sync._sync_token_queue.size()
            kind = "AccumulatorApplyGradient"  # Its beginning tells references from resources.
            self.pushes = [op for op in self._graph.get_operations() if op.type.endswith(kind)]
            assert len(self.pushes) == 2
            self._initial = tf.global_variables_initializer()
        self.sessions = 0
        self.make_session()

    def make_session(self):
        """Makes a session, with variables that have values."""
        self.session = tf.Session(self._target, self._graph)
        self.coord = tf.train.Coordinator()
        self.sessions += 1
        if self._is_chief:
            self.session.run(self._initial)

    def enter(self):
        """Returns a thread that tries to train with others, with new sessions if need be."""
        return started(self._enter)

    def _enter(self):
        while True:
            try:
                return self.hook.after_create_session(self.session, self.coord)
            except tf.errors.AbortedError:
                self.make_session()

    def step(self, *batches):
        """Returns a thread that makes a step with each of some rows."""
        return started(lambda: self._step(batches))

    def _step(self, batches):
        for rows in batches:
            values = self.session.run(self.train_op, {self.rows: rows})
            context = tf.train.SessionRunContext(None, self.session)
            self.hook.after_run(context, tf.train.SessionRunValues(values, None, None))

    def is_over(self):
        """Whether its session ends, after a while at most."""
        return self.coord.wait_for_stop(_LIMIT_S)


def started(function):
    """Returns a thread of a function, which may find its session closed."""

    def run():
        with contextlib.suppress(tf.errors.CancelledError, RuntimeError):
            function()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def join(*threads):
    for thread in threads:
        thread.join(_LIMIT_S)
        assert not thread.is_alive()


@pytest.fixture
def job():
    """Returns a function that makes the tasks of a job on a server of their own."""
    server, tasks = tf.train.Server.create_local_server(), []

    def make(num_workers, **kwargs):
        for index in range(num_workers):
            tasks.append(Task(server.target, index, num_workers, **kwargs))
        return tasks

    yield make
    for task in tasks:
        task.hook.end(task.session)
        task.session.close()


def assert_one_step_is_that_of_one_device(tasks):
    join(*(task.step(rows) for task, rows in zip(tasks, np.split(_ROWS, len(tasks)))))
    assert_trained(tasks, [_ROWS])


def assert_trained(tasks, batches):
    """Asserts that tasks have the weights of one device, after a step with each batch."""
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.get_variable("w", [3], tf.float64, tf.zeros_initializer())
        bias = tf.get_variable("b", [], tf.float64, tf.zeros_initializer())
        rows = tf.placeholder(tf.float64, [None, 3])
        loss = tf.reduce_mean(tf.squared_difference(rows, weights + bias))
        train_op = tf.train.GradientDescentOptimizer(0.25).minimize(loss)
        session.run(tf.global_variables_initializer())
        for batch in batches:
            session.run(train_op, {rows: batch})
        expected = session.run(weights)
    for task in tasks:
        np.testing.assert_allclose(task.session.run(task.weights), expected, rtol=1e-14)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_step_that_was_cut_short_is_made_as_if_it_had_not_been(job, sparse):
    chief, worker = tasks = job(2, sparse=sparse)
    join(*(task.enter() for task in tasks))
    waits = chief.step(_ROWS[:3] + 1)
    worker.session.run(worker.pushes[:1], {worker.rows: _ROWS[3:] + 2})
    worker.session.close()  # It is killed, with gradients of one of two variables sent.
    assert not chief.coord.should_stop()

    worker.make_session()
    back = worker.enter()
    assert chief.is_over()
    join(waits)
    chief.make_session()
    join(chief.enter(), back)
    assert_one_step_is_that_of_one_device(tasks)


def test_a_fast_worker_takes_no_token_of_a_slow_one(job):
    fast, slow = tasks = job(2)
    join(*(task.enter() for task in tasks))
    batches = [_ROWS + number for number in range(4)]
    of_fast, of_slow = zip(*(np.split(batch, 2) for batch in batches))
    # Its gradients are sent, but it is too slow to take a token before the other one is back.
    slow.session.run(slow.pushes, {slow.rows: of_slow[0]})
    going = fast.step(*of_fast)
    for _ in range(20 * _LIMIT_S):
        if slow.session.run(slow.global_step) and not slow.session.run(slow.tokens):
            break  # The other one has taken both tokens.
        assert going.is_alive() and not slow.coord.wait_for_stop(0.05)
    slow.session.run(slow.hook._own_tokens._take)  # The rest of its step.
    join(going, slow.step(*of_slow[1:]))
    assert_trained(tasks, batches)


def test_a_run_without_a_step_takes_no_token(job):
    tasks = job(2)
    join(*(task.enter() for task in tasks))
    for task in tasks:
        task.hook.after_run(tf.train.SessionRunContext(None, task.session), None)
    assert_one_step_is_that_of_one_device(tasks)


def test_the_others_begin_anew_with_a_chief_that_is_back(job):
    chief, worker = tasks = job(2)
    join(*(task.enter() for task in tasks))
    waits = worker.step(_ROWS[:3] + 1)
    chief.session.close()
    chief.make_session()
    back = chief.enter()
    assert worker.is_over()
    join(waits)
    worker.make_session()
    join(worker.enter(), back)
    assert_one_step_is_that_of_one_device(tasks)


def test_a_step_of_more_gradients_than_workers_is_made_anew_by_all(job):
    chief, worker = tasks = job(2, num_gradients=3)
    join(*(task.enter() for task in tasks))
    join(worker.step(_ROWS[:3] + 1))  # It takes the only token.
    chief.session.close()
    chief.make_session()
    back = chief.enter()
    assert worker.is_over()
    worker.make_session()
    join(worker.enter(), back)
    first, second, third = np.split(_ROWS, 3)
    going = chief.step(first, second)
    while chief.session.run(chief.tokens):  # It has not begun its second gradient.
        assert going.is_alive()
    join(worker.step(third), going)
    assert_trained(tasks, [_ROWS])


def test_a_round_that_is_called_off_while_workers_join_is_called_again(job):
    chief, worker, late = tasks = job(3)
    coming = [chief.enter(), worker.enter()]
    rounds = chief.hook._rounds
    while rounds._read(chief.session) == 0 or chief.session.run(rounds._joined) < 2:
        assert all(thread.is_alive() for thread in coming)
    sessions = chief.sessions, worker.sessions
    # As does one that finds it open.
    late.session.run(late.hook._rounds._set_round, {late.hook._rounds._number: 0})
    join(*coming, late.enter())
    assert (chief.sessions, worker.sessions) > sessions
    assert_one_step_is_that_of_one_device(tasks)


def test_whoever_is_back_begins_anew_when_the_chief_calls(job):
    chief, worker = job(2)
    rounds = worker.hook._rounds
    worker.session.run([rounds._set_joined], {rounds._number: 2})
    worker.session.run([rounds._set_round], {rounds._number: 7})  # It is open.

    def call():
        while chief.hook._rounds._read(chief.session):
            pass
        chief.hook.after_create_session(chief.session, chief.coord)

    calling = started(call)
    with pytest.raises(tf.errors.AbortedError, match=OVER):
        worker.hook.after_create_session(worker.session, worker.coord)
    worker.make_session()
    join(worker.enter(), calling)


def test_a_job_that_does_without_some_workers_has_no_rounds():
    with tf.Graph().as_default():
        sync = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.25), 2, 3)
        assert sync_replicas.waits_for_all(sync) == 0
