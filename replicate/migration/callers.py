"""Tells whether the file that called belongs to the program or to an installed library."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import types
from typing import Iterable

_REPLICATE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_INSTALLED = ("site-packages", "dist-packages")
# Directories of Python's standard library, whose code acts for its callers.
_PYTHON = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")
)
_packages: set[str] = set()


def add(packages: Iterable[str]) -> None:
    """Makes installed packages count as parts of the program.

    Args:
        packages: Names of the packages.
    """
    _packages.update(packages)


def is_program() -> bool:
    """Whether the code that called the caller belongs to the program.

    Callers in Python's standard library are skipped. If there are no others, as when Python starts
    a thread or ends, the answer is no.
    """
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        kind = _kind(frame.f_code.co_filename)
        if kind != "python":
            return kind == "program" or _is_named(frame.f_globals.get("__name__"))
        frame = frame.f_back
    return False


def is_import() -> bool:
    """Whether Python's import system called the caller."""
    return sys._getframe(2).f_code.co_filename.startswith("<frozen importlib")


def is_program_module(module: object) -> bool:
    """Whether a module belongs to the program.

    Args:
        module: Any value of `sys.modules`.
    """
    if not isinstance(module, types.ModuleType):
        return False
    name = vars(module).get("__name__")
    file = vars(module).get("__file__")
    if name == "__main__" and file is None:
        return True  # An interactive prompt, or `python -c`.
    return isinstance(file, str) and (_kind(file) == "program" or _is_named(name))


def _is_named(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in _packages


@functools.lru_cache(maxsize=None)
def _kind(file: str) -> str:
    """Returns the owner of a file: "python", "library" or "program"."""
    if file.startswith("<frozen "):
        return "python"
    if file.startswith("<"):  # An interactive prompt, or compiled text.
        return "program"
    path = os.path.realpath(file)
    folders = path.split(os.sep)
    if any(folder in _INSTALLED for folder in folders) or path.startswith(_REPLICATE + os.sep):
        return "library"
    if path.startswith(_PYTHON):
        return "python"
    return "library" if _is_target(path) else "program"


def _is_target(path: str) -> bool:
    """Whether a file lies in a folder that `pip install --target` has filled."""
    for folder in map(os.path.realpath, sys.path):
        if path.startswith(folder + os.sep) and _has_distributions(folder):
            return True
    return False


@functools.lru_cache(maxsize=None)
def _has_distributions(folder: str) -> bool:
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False
