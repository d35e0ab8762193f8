"""Which imports lead to files of a codebase; nothing is imported, and no file is looked for."""

from __future__ import annotations

import os
from typing import Iterator


class Imports:
    """The files of a codebase, as statements of Python name them."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._tops: dict[str, str] = {}
        self._roots: dict[str, None] = {}
        self._keys: dict[tuple[str, str], str] = {}

    def add(self, path: str, root: str) -> None:
        """Adds a file.

        Args:
            path: As the command line leads to it.
            root: What the command line names, that it lies below.
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
        """Whether a full name, or what it lies below, may be one of the files.

        Args:
            name: Such as "networks.build", which is no relative one.
            importer: The path of the file that says so.
        """
        parts = name.split(".")
        for base in self._bases(os.path.abspath(importer)):
            for count in range(len(parts), 0, -1):
                stem = os.path.join(base, *parts[:count])
                if {f"{stem}.py", os.path.join(stem, "__init__.py")} & self._paths:
                    return True
        return False

    def key(self, name: str, importer: str) -> str:
        """Returns what tells a name of a file of the codebase from all others, "" if it is none.

        Args:
            name: Such as "networks.build.norm", or ".build.norm" of a relative import.
            importer: The path of the file that says so.
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
        """Yields the directories in which an import begins."""
        directory = os.path.dirname(importer)
        yield directory
        top = self._tops.get(importer, directory)
        while directory != top and len(directory) > len(top):
            directory = os.path.dirname(directory)
            yield directory
        yield from self._roots


def own_key(path: str, name: str) -> str:
    """Returns the `Imports.key` of a name that a file defines."""
    return f"{os.path.abspath(path)}:{name}".replace(", ", ",")  # Needs are divided so.
