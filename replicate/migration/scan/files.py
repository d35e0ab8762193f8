"""Lists and reads the Python files of a codebase, without those of installed packages."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Callable, Iterator

LARGEST = 4 * 2**20
"""Limit in bytes; a larger file is data, so it is reported and not read."""
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "dist-packages", "__pypackages__"}
# Directories of build results, if a build file lies beside them; else packages of the codebase.
_BUILT = {"build", "dist"}
_BUILDERS = {"setup.py", "setup.cfg", "pyproject.toml", "CMakeLists.txt", "BUILD", "WORKSPACE"}
_ENVIRONMENTS = {"pyvenv.cfg", "conda-meta"}


class NotReadError(Exception):
    """A file that is not read; the error's text is the reason, in a few words."""


def walk(
    root: str, skip: Callable[[str], bool], problem: Callable[[str, str], None]
) -> Iterator[str]:
    """Yields the paths of files to read, in order.

    Args:
        root: A directory; or a file, which is yielded whatever its name is.
        skip: Function of a path that tells whether to leave it out.
        problem: Function that is called with a path and the reason why it cannot be listed.
    """
    if not os.path.isdir(root):
        yield root
        return
    pending = [root]
    while pending:
        directory = pending.pop()
        try:
            with os.scandir(directory) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError as error:
            problem(directory, f"cannot be listed: {error.strerror}")
            continue
        names = {entry.name for entry in entries}
        if directory != root and names & _ENVIRONMENTS:
            continue
        below = []
        for entry in entries:
            path = entry.path[2:] if directory == os.curdir else entry.path
            if skip(path):
                continue
            # Links to directories are not followed: they lead to other codebases, or in circles.
            if _is_directory(entry):
                if not _is_foreign(entry.name, names):
                    below.append(path)
            elif entry.name.endswith((".py", ".ipynb")) and not _is_linked_directory(entry):
                yield path
        pending += reversed(below)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_linked_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_foreign(name: str, beside: set[str]) -> bool:
    """Whether a directory does not belong to the codebase.

    Args:
        name: Name of the directory.
        beside: Set of the names in its parent directory.
    """
    if name.startswith(".") or name in _SKIPPED or name.endswith((".egg-info", ".dist-info")):
        return True
    return name in _BUILT and bool(beside & _BUILDERS)


def identity(path: str) -> tuple[int, int] | None:
    """Returns a key that is the same for all links to one file; None if the file is missing."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def read(path: str) -> bytes:
    """Returns the bytes of a file.

    Raises:
        NotReadError: If it is not a regular file, too large, or cannot be read.
    """
    try:
        # Opening a pipe would block if no process writes to it.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise NotReadError("no regular file")
        opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
        with os.fdopen(opened, "rb") as file:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode):
                raise NotReadError("no regular file")
            data = file.read(LARGEST + 1)
    except ValueError as error:  # A null byte in a name.
        raise NotReadError(str(error)) from None
    except OSError as error:
        broken = os.path.islink(path) and not os.path.exists(path)
        why = "a link that leads nowhere" if broken else error.strerror or str(error)
        raise NotReadError(why) from None
    if len(data) > LARGEST:
        raise NotReadError(f"larger than the limit, {LARGEST // 2**20} MiB")
    return data


_BINARY = getattr(os, "O_BINARY", 0)


def digest(data: bytes) -> bytes:
    """Returns a hash of a file's bytes, to detect changes."""
    return hashlib.sha256(data).digest()
