"""Reads the table of the names of `tf.contrib`: files in `names/` with one line for each name.

A file is named after a package of `tf.contrib`; `others.txt` has packages of a single line. A line
holds a name, its kind, and a target or advice; lines that begin with `#` are comments:

    batch_norm            package  tf_slim.batch_norm
    map_and_batch         alias    tf.data.experimental.map_and_batch
    xavier_initializer    own      initializers.xavier_initializer
    bow_encoder           none     Average `tf.nn.embedding_lookup` over the words.
    *                     none     The advice for all names that have no line.

The name `.` is the package itself. The target of kind `own` is relative to this folder, except
after a `/`, which begins a full path. Names of modules end with a dot. `modules.txt` lists modules
without a line, whose members are known by name.
"""

from __future__ import annotations

import functools
import pathlib
from typing import NamedTuple

_NAMES = pathlib.Path(__file__).parent / "names"
_OWN = "replicate.migration.contrib."
_PREFIXES = ("tensorflow.compat.v1.contrib.", "tensorflow.contrib.", "tf.contrib.")
# Names of packages that provide large parts, by the name of the module to import.
PACKAGES = {
    "tensorflow_gan": "tensorflow-gan",
    "tensorflow_probability": "tensorflow-probability",
    "tf_slim": "tf-slim",
}
# Files of this folder that call a package, with the module of the package.
_OF_PACKAGES = {"gan": "tensorflow_gan"}


class Place(NamedTuple):
    """The replacement of a name of `tf.contrib`."""

    name: str  # Without `tf.contrib.`, such as "layers.xavier_initializer".
    kind: str  # "alias", "own", "package" or "none".
    target: str  # Dotted, such as "tf.data.experimental.Counter"; `tf` means `compat.v1`.
    package: str  # Name for pip of the package that the target needs; empty if none.
    advice: str  # Code to write instead, or the statement that nothing replaces it.


def find(name: str) -> Place:
    """Returns the replacement of a name of `tf.contrib`, without importing it.

    Args:
        name: A name such as "layers.xavier_initializer", with or without `tf.contrib.` before it.
            Of a full path, as in "layers.python.layers.initializers.xavier_initializer", the last
            part is looked up. Modules, such as "slim" and "slim.nets", are names as well.

    Returns:
        A `Place`. Its kind is "alias" for names of TensorFlow, "own" for names of replicate, which
        include modules of `tf.contrib` whose members have places, "package" for names of a package,
        and "none" for all others, with an `advice`.

    Raises:
        TypeError: If `name` is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"A name of tf.contrib is a string, such as 'layers.conv2d', got {name!r}.")
    for prefix in _PREFIXES:
        name = name[len(prefix) :] if name.startswith(prefix) else name
    package, _, rest = name.partition(".")
    if package not in packages():
        return _none(name, f"TensorFlow 1.15 has no tf.contrib.{package or name}, either.")
    rows = _rows(package)
    if not rest:
        return rows["."]._replace(name=name) if "." in rows else _module(name)
    parts = rest.split(".")
    for length in range(len(parts), 0, -1):
        row = rows.get(".".join(parts[:length])) or rows.get(".".join(parts[:length]) + ".")
        if row is not None:
            return _below(row, f"{package}.{rest}", parts[length:])
    if name in module_names() and rows.get(".", _module(name)).kind != "none":
        return _module(name)  # Modules of a package without a place cannot be imported.
    if parts[-1] in rows and _is_path(name):
        return rows[parts[-1]]
    if "*" in rows:
        return rows["*"]._replace(name=name)
    if rows["."].kind == "none":
        return _none(name, rows["."].advice)
    return _none(name, f"TensorFlow 1.15 has no tf.contrib.{name}, either.")


def names_in(package: str) -> tuple[str, ...]:
    """Returns the names that have lines in a package's file, in its order.

    Args:
        package: Name of the package, such as "layers".
    """
    names = (name.rstrip(".") for name in _rows(package))
    return tuple(name for name in names if name.isidentifier())


@functools.lru_cache(maxsize=None)
def packages() -> frozenset[str]:
    """Returns the packages that `tf.contrib` had, such as "layers"."""
    files = {path.stem for path in _NAMES.glob("*.txt")} - {"modules", "others"}
    return frozenset(files | _others().keys())


@functools.lru_cache(maxsize=None)
def module_names() -> frozenset[str]:
    """Returns the modules of `modules.txt`, and the packages around them."""
    found: set[str] = set()
    for name in (_NAMES / "modules.txt").read_text(encoding="utf-8").split():
        parts = name.split(".")
        found.update(".".join(parts[:length]) for length in range(2, len(parts) + 1))
    return frozenset(found)


def _below(row: Place, name: str, rest: list[str]) -> Place:
    """Returns the place of an attribute of a name that has a row.

    Args:
        row: The `Place` of the name that has a row.
        name: The full name that was asked for.
        rest: The parts of `name` after that name.
    """
    if not rest:
        return row
    if row.kind == "none":
        return row._replace(name=name)
    return row._replace(name=name, target=".".join([row.target, *rest]))


def _is_path(name: str) -> bool:
    """Whether a name is in a module of `modules.txt`, whose members are looked up by name."""
    return name.rpartition(".")[0] in module_names()


def _module(name: str) -> Place:
    return Place(name, "own", f"tensorflow.contrib.{name}", "", "")


def _none(name: str, advice: str) -> Place:
    return Place(name, "none", "", "", advice)


@functools.lru_cache(maxsize=None)
def _others() -> dict[str, Place]:
    return _read("others.txt", "")


@functools.lru_cache(maxsize=None)
def _rows(package: str) -> dict[str, Place]:
    if package in _others():
        return {".": _others()[package]}
    return _read(f"{package}.txt", f"{package}.")


def _read(file: str, prefix: str) -> dict[str, Place]:
    rows = {}
    for line in (_NAMES / file).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, kind, rest = line.split(None, 2)
            full = prefix[:-1] if name == "." else prefix + name.rstrip(".")
            rows[name] = _place(full, kind, rest)
    return rows


def _place(name: str, kind: str, rest: str) -> Place:
    if kind == "none":
        return _none(name, rest)
    target = _OWN + rest if kind == "own" else rest
    if rest.startswith("/"):
        target = rest[1:]
    root = rest.partition(".")[0]
    root = _OF_PACKAGES.get(root, "") if kind == "own" else root
    return Place(name, kind, target, PACKAGES.get(root, ""), "")
