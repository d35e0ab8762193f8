"""One test of a rule that holds for each of many things, such as the modules of the library."""

from __future__ import annotations

from typing import Any, Callable, Iterable


def of_each(
    things: Iterable[Any], name_of: Callable[[Any], str] = str
) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """Makes a test of all things from a check of one; the test names every thing that fails.

    To collect and to report a test takes longer than to check one thing.

    Args:
        things: The things.
        name_of: Function of a thing that returns its name.
    """
    things = list(things)
    assert things

    def decorate(check: Callable[[Any], None]) -> Callable[[], None]:
        def test() -> None:
            broken = {}
            for thing in things:
                try:
                    check(thing)
                except AssertionError as error:
                    broken[name_of(thing)] = str(error)
            assert not broken, "\n\n".join(f"{name}: {text}" for name, text in broken.items())

        # Not `functools.wraps`: pytest would see the parameter of the check.
        test.__name__, test.__doc__, test.__module__ = (
            check.__name__,
            check.__doc__,
            check.__module__,
        )
        return test

    return decorate
