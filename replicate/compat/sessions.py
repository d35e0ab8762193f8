"""Tells whether a thread is inside a `MonitoredSession`.

A session may wait for servers forever, and does not notify its hooks then, nor when an exception
ends it. So the stack of the thread is searched for functions of the session.
"""

from __future__ import annotations

import sys
from typing import Iterator

_FILE = "/python/training/monitored_session.py"
_MODULES = ("tensorflow" + _FILE, "tensorflow_core" + _FILE)  # TensorFlow 2.1 and older.


def _functions(thread: int) -> Iterator[str]:
    """Yields the names of the functions of `MonitoredSession` that a thread is in."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename.replace("\\", "/").endswith(_MODULES):
            yield frame.f_code.co_name
        frame = frame.f_back


def is_in_call(thread: int) -> bool:
    """Whether the thread with this identifier is in any function of a session."""
    return any(True for _ in _functions(thread))


def is_creating(thread: int) -> bool:
    """Whether the thread with this identifier is creating a session."""
    return any(name.endswith("create_session") for name in _functions(thread))
