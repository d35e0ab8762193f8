"""Adapts functions of TensorFlow that `tf.contrib` had under other names and argument orders."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable


def respelled(function: Callable[..., Any], name: str, arguments: str) -> Callable[..., Any]:
    """Returns a function that reorders its arguments and calls another with keywords.

    Args:
        function: The function to call.
        name: Name of the new function.
        arguments: The new function's arguments, in order, separated by spaces; `new=old` if
            `function` has another name for one. Defaults are those of `function`; an argument after
            a `!` is required.
    """
    theirs = inspect.signature(function).parameters
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = {}
    parameters = []
    for argument in arguments.split():
        new, _, old = argument.lstrip("!").partition("=")
        names[new] = old or new
        default = inspect.Parameter.empty if argument[0] == "!" else theirs[old or new].default
        parameters.append(inspect.Parameter(new, kind, default=default))
    signature = inspect.Signature(parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{name}(): {error}; its arguments are {signature}.") from None
        return function(**{names[new]: value for new, value in given.items()})

    call.__name__ = call.__qualname__ = name
    call.__module__ = __name__
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call
