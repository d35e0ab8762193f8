"""Tells whether a thread is inside a `MonitoredSession`, or an evaluation.

A session may wait for servers forever, and does not notify its hooks then, nor when an exception
ends it. Nor does it when one of its hooks evaluates, which may take longer than any step. So the
stack of the thread is searched for functions of the session and of the evaluation.
"""

from __future__ import annotations

import sys
from typing import Iterator

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


def _calls(thread: int) -> Iterator[tuple[str, str]]:
    """Yields the files and names of the functions that a thread is in, the innermost first."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        yield frame.f_code.co_filename.replace("\\", "/"), frame.f_code.co_name
        frame = frame.f_back


def _functions(thread: int) -> Iterator[str]:
    """Yields the names of the functions of `MonitoredSession` that a thread is in."""
    return (name for file, name in _calls(thread) if file.endswith(_SESSIONS))


def is_in_call(thread: int) -> bool:
    """Whether the thread with this identifier is in any function of a session."""
    return any(True for _ in _functions(thread))


def is_creating(thread: int) -> bool:
    """Whether the thread with this identifier is creating a session."""
    return any(name.endswith("create_session") for name in _functions(thread))


def evaluations(thread: int) -> int:
    """Returns how many functions that evaluate the thread with this identifier is in.

    If there are more than when a session began, then one of its hooks evaluates.
    """
    return sum(file.endswith(_EVALUATES.get(name, ())) for file, name in _calls(thread))
