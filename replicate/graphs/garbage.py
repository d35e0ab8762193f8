"""Switches Python's garbage collection off while a graph is built."""

from __future__ import annotations

import contextlib
import gc
from typing import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """A scope in which Python does not collect unreachable cycles.

    Collections start whenever many objects have been made, and visit all objects. Objects of a
    graph stay alive, so collections would free almost nothing and take a sixth of the time of
    building. Garbage is collected after the scope, unless the program had switched collection off.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
