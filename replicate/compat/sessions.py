"""Whether a thread is inside of a `MonitoredSession`, which does not say so itself.

It waits for servers without an end and without telling its hooks, and when an exception ends it, it
does not tell them either. So this looks at the functions that the thread is in.
"""

import sys

_FILE = "/python/training/monitored_session.py"
_MODULES = ("tensorflow" + _FILE, "tensorflow_core" + _FILE)  # The latter until 2.1.


def _functions(thread):
    """Yields the names of the functions of `MonitoredSession` that a thread is in."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code.co_filename.replace("\\", "/").endswith(_MODULES):
            yield frame.f_code.co_name
        frame = frame.f_back


def is_in_call(thread):
    """Whether the thread of this identifier is in any function of a session."""
    return any(True for _ in _functions(thread))


def is_creating(thread):
    """Whether the thread of this identifier waits for a session to be made."""
    return any(name.endswith("create_session") for name in _functions(thread))
