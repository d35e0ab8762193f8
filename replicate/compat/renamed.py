"""Old names of public arguments, fields and classes, which still work, with a warning.

The mapping is by keyword only: an argument that is passed by position has no name.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any, Callable, TypeVar

SINCE = "0.2.0"  # The version that brought the new names.
UNTIL = "2027-12-01"  # The date from which the old names no longer work.

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class")


def arguments(owner: str, **names: str) -> Callable[[_Function], _Function]:
    """Returns a decorator that lets a function take keyword arguments by their old names.

    `inspect.signature` and type checkers see the new names alone.

    Args:
        owner: Public name of the function or class, for messages.
        **names: The new name of each argument, by its old name.

    Returns:
        The decorator. A call of the decorated function with an old name gives one
        `FutureWarning` for each; a call with both names is a `TypeError`.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for old in [name for name in names if name in kwargs]:
                new = names[old]
                if new in {*kwargs, *inspect.signature(function).bind_partial(*args).arguments}:
                    raise TypeError(
                        f"`{owner}` takes an argument by one name, but got both `{new}` and "
                        f"`{old}`, its old name. Leave `{old}` out."
                    )
                warn(f"{owner}({old}=)", f"{owner}({new}=)")
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        decorated: Any = call
        return decorated

    return decorate


def fields(**names: str) -> Callable[[_Class], _Class]:
    """Returns a decorator that lets a `NamedTuple` know its fields by their old names as well.

    The constructor and `_replace` take the old names, as `arguments` describes. Reading an
    attribute by its old name gives a `FutureWarning`, too.

    Args:
        **names: The new name of each field, by its old name.
    """

    def decorate(cls: _Class) -> _Class:
        named: Any = cls
        takes_old = arguments(named.__name__, **names)
        named.__new__ = staticmethod(takes_old(named.__new__))
        named._replace = takes_old(named._replace)
        for old, new in names.items():
            setattr(named, old, _attribute(named.__name__, old, new))
        return cls

    return decorate


def _attribute(owner: str, old: str, new: str) -> property:
    def read(self: Any) -> Any:
        warn(f"{owner}.{old}", f"{owner}.{new}")
        return getattr(self, new)

    return property(read, doc=f"Old name of `{new}`.")


def warn(old: str, new: str) -> None:
    """Warns of an old name, at the line that calls the caller of this function."""
    warnings.warn(
        f"`{old}` has been called `{new}` since replicate {SINCE}. The old name will be removed "
        f"on {UNTIL}.",
        FutureWarning,
        stacklevel=3,
    )
