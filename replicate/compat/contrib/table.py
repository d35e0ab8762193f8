"""The table of the names of `tf.contrib`: one line a name, in `names/`, read when it is asked for.

A file is called as the package that it is about, and `others.txt` is about those that are not worth
a file. A line is a name, its kind, and what the kind needs; a line that begins with `#` is none:

    batch_norm            package  tf_slim.batch_norm
    map_and_batch         alias    tf.data.experimental.map_and_batch
    xavier_initializer    own      initializers.xavier_initializer
    bow_encoder           none     Average `tf.nn.embedding_lookup` over the words.
    *                     none     What is said of all names that have no line.

The name `.` is the package itself. What an own name stands for lies in this folder, but for one
that begins with `/`, which says all. The names of modules end with a dot; `modules.txt` has those
of which only the names in them are known.
"""

from __future__ import annotations

import functools
import pathlib
from typing import NamedTuple

_NAMES = pathlib.Path(__file__).parent / "names"
_OWN = "replicate.compat.contrib."
_PREFIXES = ("tensorflow.compat.v1.contrib.", "tensorflow.contrib.", "tf.contrib.")
# How the packages are called that take over what is large, by the module that they are imported by.
PACKAGES = {
    "tensorflow_gan": "tensorflow-gan",
    "tensorflow_probability": "tensorflow-probability",
    "tf_slim": "tf-slim",
}
# Files of own names that call a package.
_OF_PACKAGES = {"gan": "tensorflow_gan"}


class Place(NamedTuple):
    """Where a name of `tf.contrib` lives now."""

    name: str  # Without `tf.contrib.`, such as "layers.xavier_initializer".
    kind: str  # "alias", "own", "package" or "none".
    target: str  # Dotted, such as "tf.data.experimental.Counter", where `tf` is `compat.v1`.
    package: str  # What pip calls the package that has the target, or that an own name calls.
    advice: str  # What to write instead, or that nothing replaces it.


def find(name: str) -> Place:
    """Returns where a name of `tf.contrib` lives now, without importing what it stands for.

    Args:
        name: Such as "layers.xavier_initializer", with or without `tf.contrib.` before it. The path
            of a file, as in "layers.python.layers.initializers.xavier_initializer", is found by the
            name at its end. Names of modules, such as "slim" and "slim.nets", are names as well.

    Returns:
        A `Place`. Its kind is "alias" for what TensorFlow has, "own" for what replicate has, also
        for modules of `tf.contrib` whose names have places of their own, "package" for what a
        package has, and "none" for all others, of which `advice` says what to write.

    Raises:
        TypeError: If `name` is no string.
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
        return _module(name)  # Of a package that has no place, no module can be imported.
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
        package: Such as "layers".
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
    """Returns the modules of which only the names in them are known, and those that hold them."""
    found: set[str] = set()
    for name in (_NAMES / "modules.txt").read_text(encoding="utf-8").split():
        parts = name.split(".")
        found.update(".".join(parts[:length]) for length in range(2, len(parts) + 1))
    return frozenset(found)


def _below(row, name, rest):
    """Returns the place of what is below a name that has a row."""
    if not rest:
        return row
    if row.kind == "none":
        return row._replace(name=name)
    return row._replace(name=name, target=".".join([row.target, *rest]))


def _is_path(name):
    """Whether a name is one in a module that only has names that are known otherwise."""
    return name.rpartition(".")[0] in module_names()


def _module(name):
    return Place(name, "own", f"tensorflow.contrib.{name}", "", "")


def _none(name, advice):
    return Place(name, "none", "", "", advice)


@functools.lru_cache(maxsize=None)
def _others():
    return _read("others.txt", "")


@functools.lru_cache(maxsize=None)
def _rows(package) -> dict[str, Place]:
    if package in _others():
        return {".": _others()[package]}
    return _read(f"{package}.txt", f"{package}.")


def _read(file, prefix):
    rows = {}
    for line in (_NAMES / file).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, kind, rest = line.split(None, 2)
            full = prefix[:-1] if name == "." else prefix + name.rstrip(".")
            rows[name] = _place(full, kind, rest)
    return rows


def _place(name, kind, rest):
    if kind == "none":
        return _none(name, rest)
    target = _OWN + rest if kind == "own" else rest
    if rest.startswith("/"):
        target = rest[1:]
    root = rest.partition(".")[0]
    root = _OF_PACKAGES.get(root, "") if kind == "own" else root
    return Place(name, kind, target, PACKAGES.get(root, ""), "")
