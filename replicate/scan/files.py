"""Which files of a codebase are read: its Python, none of what others put there, each once."""

import hashlib
import os
import stat

LARGEST = 4 * 2**20
"""Bytes; a larger file is said and not read: it is data."""
_SKIPPED = {"__pycache__", "node_modules", "site-packages", "dist-packages", "__pypackages__"}
# Which are packages of somebody, unless what builds lies beside.
_BUILT = {"build", "dist"}
_BUILDERS = {"setup.py", "setup.cfg", "pyproject.toml", "CMakeLists.txt", "BUILD", "WORKSPACE"}
_ENVIRONMENTS = {"pyvenv.cfg", "conda-meta"}


class NotReadError(Exception):
    """A file that is not read; its text says why, in a few words."""


def walk(root, skip, problem):
    """Yields the paths below a path whose files are to be read, in order.

    Args:
        root: A file, which is yielded whatever its name, or a directory.
        skip: Function of a path, whether it is left out.
        problem: Function of a path and of why it cannot be listed.
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
            # Links to directories are not followed: what they lead to is elsewhere, or a circle.
            if _is_directory(entry):
                if not _is_others(entry.name, names):
                    below.append(path)
            elif entry.name.endswith((".py", ".ipynb")) and not _is_linked_directory(entry):
                yield path
        pending += reversed(below)


def _is_directory(entry):
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_linked_directory(entry):
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_others(name, beside):
    if name.startswith(".") or name in _SKIPPED or name.endswith((".egg-info", ".dist-info")):
        return True
    return name in _BUILT and bool(beside & _BUILDERS)


def identity(path):
    """Returns what tells a file from others, None if there is none: links lead to the same."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def read(path):
    """Returns the bytes of a file.

    Raises:
        NotReadError: If it is no regular file, too large, or cannot be read.
    """
    try:
        # What is no file would block, such as a pipe that nobody writes to.
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


def digest(data):
    """Returns what tells whether a file is still as it was read."""
    return hashlib.sha256(data).digest()
