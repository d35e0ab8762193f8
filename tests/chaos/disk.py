"""A disk that can be full: a file system of its own; limited files where none may be mounted."""

from __future__ import annotations

import contextlib
import resource
import subprocess

SIZE = "512m"
_BLOCK = bytes(2**20)
_LIMIT = 2**11  # Bytes of a file; a checkpoint's have more.


def mounted(directory):
    """Returns the command under which a directory is a file system of its own, None if none may.

    It is one for the command and its children alone, and is gone with them.
    """
    mount = f'mount -t tmpfs -o size={SIZE} none "$0" && exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(directory)]
    try:
        tried = subprocess.run([*command, "true"], capture_output=True, check=False, timeout=60)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return command if tried.returncode == 0 else None


class Disk:
    """The disk that all tasks of a cluster write to.

    Args:
        directory: Where it is, a `pathlib.Path`.
        is_mounted: Whether it is a file system of its own, which can be filled.
        processes: Function that returns the identifiers of all processes that write to it.
    """

    def __init__(self, directory, is_mounted, processes):
        self._filler = directory / "filler"
        self._is_mounted = is_mounted
        self._processes = processes
        self._is_full = False

    @property
    def way(self):
        """How it is filled, a str."""
        return "full" if self._is_mounted else "files limited"

    def fill(self):
        """Leaves no space, not even for a small file."""
        self._is_full = True
        if not self._is_mounted:
            self._limit(_LIMIT)
            return
        with contextlib.suppress(OSError), open(self._filler, "wb", buffering=0) as file:
            while file.write(_BLOCK):
                pass

    def free(self):
        """Gives the space back."""
        self._is_full = False
        if not self._is_mounted:
            self._limit(None)
            return
        with contextlib.suppress(FileNotFoundError):
            self._filler.unlink()

    def started(self, process):
        """Tells it that a process was started."""
        if self._is_full and not self._is_mounted:
            _limit(process, _LIMIT)

    def _limit(self, size):
        for process in self._processes():
            _limit(process, size)


def _limit(process, size):
    with contextlib.suppress(ProcessLookupError):
        _, most = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (most if size is None else size, most))
