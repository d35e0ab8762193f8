"""Whether losses of towers and batches are added up, or averaged."""

import contextlib
import contextvars

_added_up = contextvars.ContextVar("replicate_losses_added_up", default=False)


def losses_are_added_up():
    """Whether losses of towers and batches are added up here, instead of averaged."""
    return _added_up.get()


@contextlib.contextmanager
def losses_added_up(summed):
    """A scope in which losses of towers and batches are added up if `summed`, else averaged."""
    token = _added_up.set(summed)
    try:
        yield
    finally:
        _added_up.reset(token)
