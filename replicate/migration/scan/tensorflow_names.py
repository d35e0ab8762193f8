"""Looks up names of TensorFlow in a table, which was generated from TensorFlow."""

from __future__ import annotations

import ast
import functools
import pathlib
from typing import NamedTuple

from replicate.migration.scan.scopes import Names

TABLE = pathlib.Path(__file__).with_name("tensorflow_names.txt")


class Name(NamedTuple):
    """A name of `tensorflow`.

    Attributes:
        api: "tensorflow", "v1" or "v2" for `compat.v1` or `compat.v2`, "contrib", or "".
        rest: The rest of the name, such as "layers.dense".
    """

    api: str
    rest: str


class Known(NamedTuple):
    """Facts on a name of version 1.

    Attributes:
        status: As in the table: "lacks", "means", "gone", "new".
        more: Arguments that only version 1 has, or the last version that has the name.
    """

    status: str
    more: tuple[str, ...]


def parse(path: str) -> Name:
    """Returns the `Name` that a path stands for."""
    parts = path.split(".")
    api = ""
    if parts[0] == "tensorflow":
        api, parts = "tensorflow", parts[1:]
        while parts[:2] in (["compat", "v1"], ["compat", "v2"]):
            api, parts = parts[1], parts[2:]
        if parts[:1] == ["contrib"]:
            api, parts = "contrib", parts[1:]
    return Name(api, ".".join(parts)) if api else Name("", path)


@functools.lru_cache(None)
def _table() -> dict[str, Known]:
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith(("#", "inside ")):
            status, name, *more = line.split()
            found[name] = Known(status, tuple(more))
    return found


@functools.lru_cache(None)
def _insides() -> dict[str, str]:
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("inside "):
            _, module, *names = line.split()
            for name in names:
                private, _, public = name.partition("=")
                found[f"{module}.{private}"] = public or private
    return found


def public(path: str) -> str:
    """Returns the public name of an object with a private path of TensorFlow; "" if it has none."""
    return _insides().get(path, "")


def known(rest: str) -> tuple[str, Known] | None:
    """Returns the longest prefix of a name that the table has, and its `Known`; or None."""
    parts = rest.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if name in _table():
            found = _table()[name]
            # Attributes of a class or function have no lines: they share its entry.
            return (name, found)
    return None


def is_of_estimator(name: Name) -> bool:
    """Whether a `Name` belongs to `tf.estimator`."""
    return name.api in ("tensorflow", "v1", "v2") and name.rest.split(".")[0] == "estimator"


def function(names: Names, call: ast.Call) -> Name:
    """Returns the `Name` of a called function; `Name("", "")` if it is not known."""
    path = names.path(call.func)
    return parse(path) if path else Name("", "")
