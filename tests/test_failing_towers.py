"""An exception in one tower: all stop, and it reaches the caller with all that it knew.

After each failure, `check_failure` looks for what it may have left behind; see `bodies.py`.
"""

import signal
import threading
import traceback

import pytest
import tensorflow.compat.v1 as tf

import replicate
from bodies import build, check_failure


def _one(values):
    return values[0]


def meet_one():
    return replicate.merge_call(_one, 1)


@pytest.mark.parametrize("reduction", [tf.losses.Reduction.SUM, tf.losses.Reduction.MEAN])
@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_amid_scopes_leaves_the_graph_as_it_was(reduction, failing):
    def body(index, features):
        with tf.variable_scope("inner", regularizer=tf.nn.l2_loss, reuse=tf.AUTO_REUSE), tf.device(
            "/cpu:1"
        ), tf.control_dependencies([features]), tf.variable_creator_scope(lambda make, **kw: 1 / 0):
            tf.add_to_collection("mine", index)
            replicate.merge_call(_one, 1)
            if index == failing:
                tf.Variable(1.0)

    phrases = f"division by zero…[Raised in tower {failing} of 2, on /device:CPU:{failing}.]"
    check_failure(body, ZeroDivisionError, phrases, loss_reduction=reduction)
    assert tf.get_collection("mine") == [0]  # The graph has tower 0's collections.


class RefusingError(Exception):
    """An error as before Python 3.11, which takes no notes, and whose arguments are no text."""

    @property
    def add_note(self):
        raise AttributeError


def _decode():
    b"\xff".decode()


def _raise(error):
    raise error


RAISES = {
    "KeyError": lambda: {}["key"],
    "UnicodeDecodeError": _decode,
    "StopIteration": lambda: next(iter([])),
    "KeyboardInterrupt": lambda: _raise(KeyboardInterrupt()),
    "SystemExit": lambda: _raise(SystemExit(3)),
    "OSError": lambda: _raise(OSError(2, "no such file", "file")),
    "OpError": lambda: _raise(tf.errors.NotFoundError(None, None, "not found")),
    "ValueError": lambda: tf.reshape(tf.ones([3]), [2]),
    "RefusingError": lambda: _raise(RefusingError(1, 2)),
}


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("act", list(RAISES.values()), ids=list(RAISES))
def test_an_exception_in_one_tower(act, failing):
    with pytest.raises(BaseException) as expected:
        act()

    def body_of_user(index, features):
        if index == failing:
            act()
        replicate.merge_call(_one, 1)

    error = check_failure(body_of_user, type(expected.value), "")
    assert type(error) is type(expected.value)
    printed = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    assert "in body_of_user\n" in printed  # The user's own frame.
    assert f"Raised in tower {failing} of 2, on /device:CPU:{failing}." in printed
    assert vars(error).get("errno", 2) == 2
    if isinstance(error, SystemExit):
        assert error.code == 3


def test_an_exception_in_a_merge_function_names_the_call():
    error = check_failure(
        lambda index, features: replicate.merge_call(lambda v: v[0] / 0, 1),
        ZeroDivisionError,
        "division by zero…[Raised in the merge function of merge_call of…<lambda>",
    )
    assert str(error).count("Raised in") == 1


def _catching(recover):
    def body(index, features):
        try:
            replicate.merge_call(lambda v: v[0] / 0, 1)
        except ZeroDivisionError:
            recover()

    return body


@pytest.mark.parametrize(
    "recover",
    [lambda: None, lambda: meet_one().no_such_attribute, lambda: tf.get_variable("w", [])],
    ids=["returns", "meets again", "creates a variable"],
)
def test_a_model_cannot_go_on_after_a_failed_rendezvous(recover):
    check_failure(_catching(recover), ZeroDivisionError, "division by zero…merge function")


def test_a_tower_that_swallows_everything_ends_too():
    def body(index, features):
        for _ in range(3):
            try:
                replicate.merge_call(_one, 1)
            except BaseException:
                swallowed.append(index)
            if not index:
                raise ValueError("tower 0 gives up")

    def run():
        with tf.Graph().as_default(), pytest.raises(ValueError, match="tower 0 gives up"):
            build(body)
        done.append(True)

    # A thread, because a tower that does not end would keep this test from ending, too.
    swallowed, done = [], []
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert done
    assert swallowed


def test_all_later_towers_are_stopped():
    def body(index, features):
        replicate.merge_call(_one, 1)
        if index == 1:
            raise ValueError("the middle one")
        started.append(index)

    started = []
    with pytest.raises(ValueError, match="tower 1 of 3"):
        build(body, num_towers=3)
    assert started == [0]  # Tower 2 never ran on.


@pytest.fixture
def interrupts():
    """Lets Ctrl-C raise, also where tests run in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_a_later_tower_runs(interrupts):
    """Tower 0's thread gets it while it waits; the later tower goes on until it parks."""

    def body(index, features):
        if index == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            parts.extend(tf.no_op() for _ in range(100))
        replicate.merge_call(_one, 1)
        parts.append("after the rendezvous")

    parts = []
    check_failure(body, KeyboardInterrupt, "")
    assert "after the rendezvous" not in parts
    assert len(parts) == 100
