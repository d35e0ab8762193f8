"""Makes a `tensorflow.contrib` from the table: modules whose names are looked up at first use.

    import tensorflow.contrib.slim as slim
    from tensorflow.contrib import layers
    from tensorflow.contrib.layers.python.layers import utils

Each works, like `tf.contrib.layers`, if the name has a place. If not, an error says what to write
instead: an ImportError in an import statement, an AttributeError elsewhere.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from importlib import abc, machinery
from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat import slim
from replicate.migration.contrib import table

ROOT = "tensorflow.contrib"
_IMPORTED = {package: module for module, package in table.PACKAGES.items()}
INSTALL = 'pip install "replicate-estimator[contrib]"'


# Modules whose name, as an attribute of their package, is a function.
_HIDDEN = {
    "framework.python.framework.experimental": "framework.experimental",
    "framework.python.ops.arg_scope": "framework.arg_scope",
}


class Contrib(types.ModuleType):
    """A module of `tensorflow.contrib`."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return _names(self)
        if name.startswith("__"):  # Python's lookups.
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        full = f"{_inner(self.__name__)}.{name}".lstrip(".")
        value = lookup(_HIDDEN.get(full, full))
        self.__dict__.setdefault(name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        full = f"{_inner(self.__name__)}.{name}"
        if full not in _HIDDEN or not isinstance(value, types.ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *_names(self)})


def lookup(name: str) -> Any:
    """Returns the object that a name of `tf.contrib` stands for.

    Args:
        name: A name such as "layers.xavier_initializer".

    Raises:
        AttributeError: If the name has no place, or one in a package that is not installed. The
            message says what to write, or which command to run.
    """
    place = table.find(name)
    problem = _problem(place)
    if problem:
        raise AttributeError(problem)
    if "." not in name or place.target == f"{ROOT}.{name}":
        return importlib.import_module(f"{ROOT}.{name}")
    if place.target.startswith(f"{ROOT}."):
        return lookup(_inner(place.target))
    try:
        return _resolve(place.target)
    except (AttributeError, ImportError) as error:
        raise AttributeError(
            f"tf.contrib.{name} is {place.target} now, which TensorFlow {tf.__version__} cannot "
            f"give: {error}"
        ) from error


class Finder(abc.MetaPathFinder, abc.Loader):
    """Finds `tensorflow.contrib` and its modules."""

    def find_spec(
        self, fullname: str, path: Any = None, target: types.ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        """Returns the spec of a module of `tf.contrib`; None for others.

        Args:
            fullname: The module's name.
            path: Ignored.
            target: Ignored.

        Raises:
            ImportError: If it is a module of `tf.contrib`, but has no place.
        """
        if fullname != ROOT and not fullname.startswith(f"{ROOT}."):
            return None
        problem = _problem(table.find(_inner(fullname))) if fullname != ROOT else None
        if problem:
            # Without `name=`: Python would drop the message in `from ... import ...`.
            raise ModuleNotFoundError(problem)
        return machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: machinery.ModuleSpec) -> types.ModuleType:
        """Returns an empty module.

        Args:
            spec: The spec of the module.
        """
        return Contrib(spec.name, f"Replacements for the names of `{spec.name}`.")

    def exec_module(self, module: types.ModuleType) -> None:
        """Replaces an empty module by the module that its name stands for, if there is one.

        Args:
            module: The empty module.

        Raises:
            ImportError: If the name stands for an object that is not a module.
        """
        name = module.__name__
        if name == ROOT or table.find(_inner(name)).target == name:
            return
        place = table.find(_inner(name))
        below = f"{_inner(name)}."
        if "." not in _inner(name) or any(one.startswith(below) for one in table.module_names()):
            return  # Its names, or modules below it, have places.
        try:
            found = lookup(_inner(name))
        except AttributeError as error:
            raise ModuleNotFoundError(str(error)) from error
        if not isinstance(found, types.ModuleType):
            raise ModuleNotFoundError(
                f"No module named {name!r}: it is no module, but {place.target} now."
            )
        sys.modules[name] = found


def _problem(place: table.Place) -> str | None:
    """Returns the reason why a place has no object, or None."""
    if place.kind == "none":
        return f"tf.contrib.{place.name} has no exact replacement in TensorFlow 2. {place.advice}"
    if place.package and not _is_installed(_IMPORTED[place.package]):
        where = "in" if place.kind == "package" else "of"
        return (
            f"tf.contrib.{place.name} is {place.target} now, {where} the package {place.package}, "
            f"which is not installed. Run: {INSTALL}"
        )
    return None


def _is_installed(module: str) -> bool:
    return module in sys.modules or importlib.util.find_spec(module) is not None


def _resolve(target: str) -> Any:
    """Returns the object of a dotted name; imports its module."""
    if target.partition(".")[0] == "tf":
        value, names = tf, target.split(".")[1:]
    else:
        value, names = _imported(target)
    for name in names:
        value = getattr(value, name)
    return value


def _imported(target: str) -> tuple[types.ModuleType, list[str]]:
    """Returns the last module on a dotted path, and the names that follow."""
    parts = target.split(".")
    module = importlib.import_module(parts[0])
    known = 1
    while known < len(parts):
        name = ".".join(parts[: known + 1])
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            # Another module is missing, which the imported one needs.
            if error.name is None or not name.startswith(error.name):
                raise
            break
        known += 1
    if parts[0] in slim.PACKAGES:
        slim.mend()
    return module, parts[known:]


def _names(module: types.ModuleType) -> list[str]:
    """Returns the names that a module of `tf.contrib` can give."""
    inner = _inner(module.__name__)
    if not inner:
        places = {name: table.find(name) for name in table.packages()}
    elif inner in table.packages():
        places = {name: table.find(f"{inner}.{name}") for name in table.names_in(inner)}
    else:
        return []
    return sorted(name for name, place in places.items() if not _problem(place))


def _inner(name: str) -> str:
    """Returns the name of a module without `tensorflow.contrib`."""
    return name[len(ROOT) + 1 :]
