"""Tells whether a thread is inside a certain `MonitoredSession`, or an evaluation.

A session may wait for servers forever, and does not notify its hooks then, nor when an exception
ends it. Nor does it when one of its hooks evaluates, which may take longer than any step. So the
stack of the thread is searched for functions of the session and of the evaluation.
"""

from __future__ import annotations

import sys
import types
from typing import Any, Iterator

_PACKAGES = "tensorflow", "tensorflow_core"  # The second in TensorFlow 2.1 and older.
_SESSIONS = tuple(f"{package}/python/training/monitored_session.py" for package in _PACKAGES)
_EVALUATES = {
    # That of `train_and_evaluate`, which exports as well.
    "evaluate_and_export": ("tensorflow_estimator/python/estimator/training.py",),
    # Also makes the graph.
    "evaluate": ("tensorflow_estimator/python/estimator/estimator.py",),
    # That of `InMemoryEvaluatorHook`.
    "_evaluate_once": tuple(f"{package}/python/training/evaluation.py" for package in _PACKAGES),
}


def _frames(thread: int) -> Iterator[types.FrameType]:
    """Yields the frames of the functions that a thread is in, the innermost first."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _file(frame: types.FrameType) -> str:
    return frame.f_code.co_filename.replace("\\", "/")


def _of_sessions(thread: int) -> Iterator[types.FrameType]:
    """Yields the frames of the sessions' functions that a thread is in, the innermost first."""
    return (frame for frame in _frames(thread) if _file(frame).endswith(_SESSIONS))


def innermost(thread: int) -> Any:
    """Returns the object that the innermost of these functions belongs to, None if there is none.

    In a hook's `begin`, this is the `MonitoredSession`.
    """
    return next((frame.f_locals.get("self") for frame in _of_sessions(thread)), None)


def is_in_call(thread: int, session: Any) -> bool:
    """Whether the thread with this identifier is in a function of this `MonitoredSession`."""
    frames = _of_sessions(thread)
    return session is not None and any(frame.f_locals.get("self") is session for frame in frames)


def is_creating(thread: int) -> bool:
    """Whether the thread with this identifier is creating a session."""
    return any(frame.f_code.co_name.endswith("create_session") for frame in _of_sessions(thread))


def evaluations(thread: int) -> int:
    """Returns how many functions that evaluate the thread with this identifier is in.

    If there are more than when a session began, then one of its hooks evaluates.
    """
    return sum(
        _file(frame).endswith(_EVALUATES.get(frame.f_code.co_name, ())) for frame in _frames(thread)
    )
