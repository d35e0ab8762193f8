"""Resolves imports to files of a codebase, without importing and without access to the disk."""

from __future__ import annotations

import os
from typing import Iterator


class Imports:
    """The files of a codebase, by the names that import statements use."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._tops: dict[str, str] = {}
        self._roots: dict[str, None] = {}
        self._keys: dict[tuple[str, str], str] = {}

    def add(self, path: str, root: str) -> None:
        """Adds a file.

        Args:
            path: Path of the file, relative like the paths of the command line.
            root: The path of the command line that contains it.
        """
        whole = os.path.abspath(path)
        top = os.path.abspath(root)
        if whole == top:
            top = os.path.dirname(whole)
        self._paths.add(whole)
        self._tops.setdefault(whole, top)
        for place in (top, os.path.join(top, "src")):
            self._roots[place] = None

    def has(self, name: str, importer: str) -> bool:
        """Whether a full name, or a package around it, may be one of the files.

        Args:
            name: An absolute name, such as "networks.build".
            importer: The path of the file that imports it.
        """
        parts = name.split(".")
        for base in self._bases(os.path.abspath(importer)):
            for count in range(len(parts), 0, -1):
                stem = os.path.join(base, *parts[:count])
                if {f"{stem}.py", os.path.join(stem, "__init__.py")} & self._paths:
                    return True
        return False

    def key(self, name: str, importer: str) -> str:
        """Returns a key for a name that a file of the codebase defines; "" for other names.

        Args:
            name: A name such as "networks.build.norm", or ".build.norm" of a relative import.
            importer: The path of the file that imports it.
        """
        asked = name, os.path.dirname(importer)
        if asked not in self._keys:
            self._keys[asked] = self._key(name, importer)
        return self._keys[asked]

    def _key(self, name: str, importer: str) -> str:
        bare = name.lstrip(".")
        level = len(name) - len(bare)
        directory = os.path.dirname(os.path.abspath(importer))
        for _ in range(level - 1):
            directory = os.path.dirname(directory)
        parts = bare.split(".")
        for base in [directory] if level else self._bases(os.path.abspath(importer)):
            for count in range(len(parts) - 1, 0, -1):
                stem = os.path.join(base, *parts[:count])
                for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
                    if path in self._paths:
                        return own_key(path, ".".join(parts[count:]))
        return ""

    def _bases(self, importer: str) -> Iterator[str]:
        """Yields the directories in which an import is looked up."""
        directory = os.path.dirname(importer)
        yield directory
        top = self._tops.get(importer, directory)
        while directory != top and len(directory) > len(top):
            directory = os.path.dirname(directory)
            yield directory
        yield from self._roots


def own_key(path: str, name: str) -> str:
    """Returns the `Imports.key` of a name that a file defines."""
    return f"{os.path.abspath(path)}:{name}".replace(", ", ",")  # ", " separates needs.
