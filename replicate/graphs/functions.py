"""Reads the code of Python functions: the names in it, and the lines that called."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
from typing import Any

from replicate.compat import op_types

INLINED = "lowered"
"""Scope of the operations of functions that are inlined, in that of the call."""

# Modules whose lines do not show users where they made a call.
_LIBRARY = re.compile(r"(replicate|tensorflow|keras|tf_keras|contextlib)(\.|$)")
# A user's directory may have the name of a package, so only those of installed packages count.
_PACKAGES = "tensorflow|tensorflow_core|tensorflow_estimator|keras|tf_keras|tf_slim|replicate"
_LIBRARY_FILES = re.compile(
    r"[/\\](site|dist)-packages[/\\](" + _PACKAGES + r")[/\\]"
    r"|[/\\](contextlib|functools|runpy)\.py$|^<frozen |^"
    + re.escape(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)
)


def unwrapped(fn: Any) -> Any:
    """Returns the function inside partial applications and `functools.wraps`."""
    fn = inspect.unwrap(fn)
    return unwrapped(fn.func) if isinstance(fn, functools.partial) else fn


def code_of(fn: Any) -> Any:
    """Returns the code of a function, which is the same in all towers that define the function."""
    return getattr(unwrapped(fn), "__code__", type(fn))


def names_in(fn: Any) -> set[str]:
    """Returns the set of global names and attributes in the code of a function, nested ones too."""
    pending: list[Any] = [getattr(unwrapped(fn), "__code__", None)]
    names: set[str] = set()
    while pending:
        code = pending.pop()
        if code is not None:
            names.update(code.co_names)
            pending += [value for value in code.co_consts if isinstance(value, type(code))]
    return names


def is_users(filename: str) -> bool:
    """Whether a file is neither of this package nor of TensorFlow and Python's import system."""
    return not _LIBRARY_FILES.search(filename)


def call_site() -> str:
    """Returns `file:line` of the nearest caller outside this package and TensorFlow."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and _LIBRARY.match(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def call_of(op: Any) -> Any:
    """Returns the function call that an operation was inlined from; itself if there is none."""
    *scopes, _ = op.name.split("/")
    for depth in range(1, len(scopes) + 1):
        try:
            call = op.graph.get_operation_by_name("/".join(scopes[:depth]))
        except KeyError:
            continue
        if op_types.calls_functions(call):
            return call
    return op


def line_of(op: Any, within: str | None = None) -> str:
    """Returns `file:line` of the code that made an operation, outside this package and TensorFlow.

    An operation that was inlined has the line of the call.

    Args:
        op: The operation.
        within: A file whose callers do not count; None counts all callers.
    """
    if not _can_list_tracebacks():
        return "unknown line"
    for filename, line, *_ in reversed(list(call_of(op).traceback or ())):
        if filename == within:
            break
        if is_users(filename):
            return f"{filename}:{line}"
    return "unknown line"


def _can_list_tracebacks() -> bool:
    """Whether the paths of files are UTF-8; else, TensorFlow ends the process at a traceback."""
    try:
        "".join([os.getcwd(), *map(str, sys.path)]).encode()
    except UnicodeEncodeError:
        return False
    except FileNotFoundError:
        pass  # The directory is gone, so nothing is imported from it.
    return True
