"""The files of a codebase as they are looked at: a few are kept, others are read again."""

import collections
import hashlib

from replicate.scan import files, reading, version_1
from replicate.scan.module import Module

KEPT = 2**20
"""Bytes of files whose modules are kept, which take about a hundred times as many."""


def digest(data):
    """Returns what tells whether a file is still as it was read."""
    return hashlib.sha256(data).digest()


def prepared(source):
    """Returns the `Module` of a source, and the findings of its imports, on which others depend."""
    module = Module(source)
    version_1.facts(module)
    return module, [*version_1.imports(module)]


class Loading:
    """The files of a codebase, by path.

    Args:
        look: Function of a path, called once for each: looks at the file, and returns its `Module`,
            or its `Source` if that is not needed for it, or None.
    """

    def __init__(self, look):
        self._look = look
        self.digests: dict = {}
        self._kept: collections.OrderedDict = collections.OrderedDict()
        self._size = 0

    def __call__(self, path):
        """Returns the `Module` of a path, None if it cannot be read, or not as it was."""
        if path in self._kept:
            self._kept.move_to_end(path)
            return self._kept[path]
        try:
            found = self._again(path) if path in self.digests else self.first(path)
            module = prepared(found)[0] if isinstance(found, reading.Source) else found
        except (RecursionError, MemoryError):
            module = None
        if path not in self._kept:
            self._keep(path, module)
        return module

    def first(self, path):
        """Looks at a file, if it was not looked at yet."""
        if path in self.digests:
            return None
        self.digests[path] = b""
        found = self._look(path)
        source = getattr(found, "source", found)
        if source is not None:
            self.digests[path] = digest(source.data)
        if isinstance(found, Module):
            self._keep(path, found)
        return found

    def _again(self, path):
        try:
            data = files.read(path)
        except files.NotReadError:
            return None
        source = reading.source(path, data) if digest(data) == self.digests[path] else None
        return source if isinstance(source, reading.Source) else None

    def _keep(self, path, module):
        self._kept[path] = module
        self._size += self._bytes(module)
        while self._size > KEPT and len(self._kept) > 1:
            _, given_up = self._kept.popitem(last=False)
            self._size -= self._bytes(given_up)

    @staticmethod
    def _bytes(module):
        return 1000 if module is None else len(module.source.data) + 1000
