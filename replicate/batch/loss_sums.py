"""Whether losses of towers and batches are summed or averaged."""

from __future__ import annotations

import contextlib
import contextvars
from typing import Iterator

_added_up: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "replicate_losses_added_up", default=False
)


def losses_are_added_up() -> bool:
    """Whether losses of towers and batches are summed here, instead of averaged."""
    return _added_up.get()


@contextlib.contextmanager
def losses_added_up(summed: bool) -> Iterator[None]:
    """A scope in which losses of towers and batches are summed if `summed`, else averaged."""
    token = _added_up.set(summed)
    try:
        yield
    finally:
        _added_up.reset(token)
