"""Whether the file that asks for something is the program's own, or an installed library's."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types
from typing import Iterable

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INSTALLED = ("site-packages", "dist-packages")
# Where Python itself is; what it does, it does for others.
_PYTHON = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")
)
_packages: set[str] = set()


def add(packages: Iterable[str]) -> None:
    """Takes installed packages for parts of the program.

    Args:
        packages: Their names.
    """
    _packages.update(packages)


def is_program() -> bool:
    """Whether what called the caller is the program, of which Python itself is no part.

    Without anybody but Python, as when it starts a thread or ends, it is not.
    """
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind != "python":
            return kind == "program" or _is_named(frame.f_globals.get("__name__"))
        frame = frame.f_back
    return False


def is_import() -> bool:
    """Whether what called the caller is Python's import of a module."""
    return sys._getframe(2).f_code.co_filename.startswith("<frozen importlib")


def is_program_module(module: object) -> bool:
    """Whether a module is the program's own.

    Args:
        module: Anything that is among Python's modules.
    """
    if not isinstance(module, types.ModuleType):
        return False
    name = vars(module).get("__name__")
    file = vars(module).get("__file__")
    if name == "__main__" and file is None:
        return True  # Of a prompt, or of `python -c`.
    return isinstance(file, str) and (_kind(file) == "program" or _is_named(name))


def _is_named(module):
    return isinstance(module, str) and module.partition(".")[0] in _packages


@functools.lru_cache(maxsize=None)
def _kind(file):
    """Returns whose a file is: "python", "library" or "program"."""
    if file.startswith("<frozen "):
        return "python"
    if file.startswith("<"):  # A prompt, or text that was compiled.
        return "program"
    path = os.path.realpath(file)
    folders = path.split(os.sep)
    if any(folder in _INSTALLED for folder in folders) or path.startswith(_OWN + os.sep):
        return "library"
    if path.startswith(_PYTHON):
        return "python"
    return "library" if _is_target(path) else "program"


def _is_target(path):
    """Whether a file lies in a folder that `pip install --target` has filled."""
    for folder in map(os.path.realpath, sys.path):
        if path.startswith(folder + os.sep) and _has_distributions(folder):
            return True
    return False


@functools.lru_cache(maxsize=None)
def _has_distributions(folder):
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False
