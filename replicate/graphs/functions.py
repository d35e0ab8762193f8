"""What Python knows of a function's code: what it names, and who called."""

import functools
import inspect
import re
import sys

# Modules whose lines tell users nothing about where they made a call.
_LIBRARY = re.compile(r"(replicate|tensorflow|keras|tf_keras|contextlib)(\.|$)")
_LIBRARY_FILES = re.compile(
    r"[/\\](tensorflow|tensorflow_core|tensorflow_estimator|keras|tf_keras|tf_slim|replicate)[/\\]"
    r"|[/\\](contextlib|functools)\.py$"
)


def unwrapped(fn):
    """Returns the function below partial applications and `functools.wraps`."""
    fn = inspect.unwrap(fn)
    return unwrapped(fn.func) if isinstance(fn, functools.partial) else fn


def code_of(fn):
    """Returns what functions that are defined anew in each tower have in common."""
    return getattr(unwrapped(fn), "__code__", type(fn))


def names_in(fn):
    """Returns the set of global names and attributes in the code of a function, nested ones too."""
    pending, names = [getattr(unwrapped(fn), "__code__", None)], set()
    while pending:
        code = pending.pop()
        if code is not None:
            names.update(code.co_names)
            pending += [value for value in code.co_consts if isinstance(value, type(code))]
    return names


def call_site():
    """Returns `file:line` of the nearest caller outside this package and TensorFlow."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _LIBRARY.match(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def line_of(op, within=None):
    """Returns `file:line` of what made an operation, outside this package and TensorFlow.

    Args:
        op: The operation.
        within: A file; whoever called that has not made it. None: whoever called.
    """
    for filename, line, *_ in reversed(list(op.traceback or ())):
        if filename == within:
            break
        if not _LIBRARY_FILES.search(filename):
            return f"{filename}:{line}"
    return "unknown line"
