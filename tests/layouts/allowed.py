"""Reads `missing.txt`: what rules may leave whole though towers could run it, and why."""

from __future__ import annotations

import fnmatch
import pathlib
from typing import Iterable, NamedTuple

_FILE = pathlib.Path(__file__).with_name("missing.txt")


class Allowed(NamedTuple):
    """A line of the file: patterns of a type and of layouts, and why that is left whole."""

    types: str
    layouts: str
    reason: str

    def covers(self, name: str, layouts: str) -> bool:
        """Whether a finding is meant."""
        return fnmatch.fnmatchcase(name, self.types) and fnmatch.fnmatchcase(layouts, self.layouts)


def read() -> list[Allowed]:
    """Returns the lines of the file."""
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    parts = [line.split(" | ") for line in lines if line.strip() and not line.startswith("#")]
    return [Allowed(*(part.strip() for part in line)) for line in parts]


def unlisted(name: str, found: Iterable[str]) -> list[str]:
    """Returns which findings of a type no line of the file allows."""
    lines = read()
    return [one for one in found if not any(line.covers(name, one) for line in lines)]


def not_found(name: str, found: Iterable[str]) -> list[Allowed]:
    """Returns lines of one type alone that no finding needs any more."""
    found = list(found)
    return [
        line
        for line in read()
        if line.types == name and not any(line.covers(name, one) for one in found)
    ]
