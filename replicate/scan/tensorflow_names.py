"""What TensorFlow has under which name; the table beside was made of TensorFlow itself."""

import functools
import pathlib
from typing import Dict, NamedTuple, Tuple

TABLE = pathlib.Path(__file__).with_name("tensorflow_names.txt")


class Name(NamedTuple):
    """A name of `tensorflow`.

    Attributes:
        api: "tensorflow" of its own names, "v1" of those of `compat.v1`, "v2", "contrib", or "".
        rest: What comes after, "layers.dense".
    """

    api: str
    rest: str


class Known(NamedTuple):
    """What is known of a name of version 1.

    Attributes:
        status: As in the table: "lacks", "means", "gone", "new".
        more: Arguments that version 1 alone has, or the last version that has the name.
    """

    status: str
    more: Tuple[str, ...]


def parse(path):
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
def _table() -> Dict[str, Known]:
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if not line.startswith(("#", "inside ")):
            status, name, *more = line.split()
            found[name] = Known(status, tuple(more))
    return found


@functools.lru_cache(None)
def _insides() -> Dict[str, str]:
    found = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("inside "):
            _, module, *names = line.split()
            for name in names:
                own, _, public = name.partition("=")
                found[f"{module}.{own}"] = public or own
    return found


def public(path):
    """Returns the public name of what a path of TensorFlow's insides stands for, "" if none."""
    return _insides().get(path, "")


def known(rest):
    """Returns the name of the table that a name is, or lies below, and what is `Known`, or None."""
    parts = rest.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if name in _table():
            found = _table()[name]
            # Of what is below a class or a function that means otherwise, nothing is known.
            return (name, found)
    return None


def is_of_estimator(name):
    """Whether a `Name` is of `tf.estimator`."""
    return name.api in ("tensorflow", "v1", "v2") and name.rest.split(".")[0] == "estimator"


def function(names, call):
    """Returns the `Name` of what a call calls, `Name("", "")` if that is not known."""
    path = names.path(call.func)
    return parse(path) if path else Name("", "")
