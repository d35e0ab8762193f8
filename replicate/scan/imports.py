"""Which file of a codebase an import leads to; nothing is imported, and no file is looked for."""

import os
from typing import Dict, Iterator, Tuple


class Imports:
    """The files of a codebase, as statements of Python name them."""

    def __init__(self):
        self._paths: Dict[str, str] = {}
        self._tops: Dict[str, str] = {}
        self._roots: Dict[str, None] = {}

    def add(self, path, read_as, root):
        """Adds a file.

        Args:
            path: As the command line leads to it.
            read_as: The path of the same file by which it is read, which a link may lead to.
            root: What the command line names, that it lies below.
        """
        whole = os.path.abspath(path)
        top = os.path.abspath(root)
        if whole == top:
            top = os.path.dirname(whole)
        self._paths.setdefault(whole, read_as)
        self._tops.setdefault(whole, top)
        for place in (top, os.path.join(top, "src")):
            self._roots[place] = None

    def find(self, name, importer) -> Iterator[Tuple[str, Tuple[str, ...]]]:
        """Yields the files that a full name may be of, with what is to be looked for in each.

        Args:
            name: As of `scopes.Names.path`, "networks.build" or, if it is relative, ".build".
            importer: The path of the file that says so.
        """
        parts = name.lstrip(".").split(".") if name.strip(".") else []
        level = len(name) - len(name.lstrip("."))
        for base in self._bases(os.path.abspath(importer), level):
            for count in range(len(parts), -1 if level else 0, -1):
                stem = os.path.join(base, *parts[:count])
                for path in (f"{stem}.py", os.path.join(stem, "__init__.py")):
                    if path in self._paths:
                        yield self._paths[path], tuple(parts[count:])

    def _bases(self, importer, level):
        """Yields the directories in which an import begins."""
        directory = os.path.dirname(importer)
        for _ in range(min(level - 1, directory.count(os.sep))):
            directory = os.path.dirname(directory)
        yield directory
        if level:
            return
        top = self._tops.get(importer, directory)
        while directory != top and len(directory) > len(top):
            directory = os.path.dirname(directory)
            yield directory
        yield from self._roots
