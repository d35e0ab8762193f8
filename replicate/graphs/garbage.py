"""When Python looks for garbage while a graph is built."""

import contextlib
import gc


@contextlib.contextmanager
def uncollected():
    """A scope in which Python does not look for cycles that nothing refers to any more.

    It does so whenever many objects have been made, and then goes over all that there are. Objects
    of a graph stay, so that it finds next to nothing, for a sixth of the time of building. What
    there is it finds when the scope is left, unless the program itself has it switched off.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
