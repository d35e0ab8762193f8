"""Makes `tensorflow` mean version 1's API to a program's files, and version 2's to libraries.

One module replaces `tensorflow`, and others replace its public modules, such as
`tensorflow.keras.layers`. They look names up in the API of the file that asks.
"""

from __future__ import annotations

import importlib
import sys
import types
from importlib import abc, machinery
from typing import Any, Sequence

import tensorflow as _installed
import tensorflow.compat.v1 as tf

from replicate.compat import graph
from replicate.migration import callers

# Modules that are the same for all files; `compat` has both APIs by name.
_SHARED = ("_api", "compat", "contrib", "core", "python", "tools")
# Attributes that TensorFlow 1 had; TensorFlow 2 deletes them from `tensorflow` at import.
_PRIVATE = ("core", "python", "tools")
_real: dict[str, types.ModuleType] = {}


class Tensorflow(types.ModuleType):
    """A public module of TensorFlow, which shows each file the API that it was written for."""

    def __init__(self, name: str, real: types.ModuleType | None) -> None:
        super().__init__(name, getattr(real, "__doc__", None))
        _real[name] = real  # type: ignore[assignment]
        for attribute in ("__file__", "__path__", "__package__"):
            if hasattr(real, attribute):
                _namespace(self)[attribute] = getattr(real, attribute)
        _namespace(self).setdefault("__path__", [])

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return vars(_seen(self, callers.is_program(), ""))

    def __getattr__(self, name: str) -> Any:
        is_program = callers.is_program()
        if is_program and self.__name__ == "tensorflow" and name in _PRIVATE:
            return importlib.import_module(f"tensorflow.{name}")
        return getattr(_seen(self, is_program, name), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("__spec__", "__loader__", "__package__", "__path__"):
            _namespace(self)[name] = value
        elif not isinstance(value, Tensorflow):  # Python's import sets submodules; ignore that.
            is_import = callers.is_import() or name in _SHARED
            setattr(_seen(self, not is_import and callers.is_program(), name), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_seen(self, callers.is_program(), name), name)

    def __dir__(self) -> list[str]:
        return dir(_seen(self, callers.is_program(), ""))


def install(packages: Sequence[str]) -> None:
    """Replaces the modules; a second call only adds packages.

    Args:
        packages: Names of installed packages that are part of the program.
    """
    callers.add(packages)
    if _real:
        return
    _warn_of_earlier_uses()
    tf.disable_v2_behavior()
    finder = Finder()
    sys.meta_path.insert(0, finder)
    replacement = Tensorflow("tensorflow", sys.modules["tensorflow"])
    replacement.__spec__ = machinery.ModuleSpec("tensorflow", finder, is_package=True)
    sys.modules["tensorflow"] = replacement
    for name, module in list(sys.modules.items()):
        if name.startswith("tensorflow.") and _version_1(name) is not None:
            sys.modules[name] = Tensorflow(name, module)
            sys.modules[name].__spec__ = machinery.ModuleSpec(name, finder, is_package=True)


class Finder(abc.MetaPathFinder, abc.Loader):
    """Finds public modules of TensorFlow that version 1's API has."""

    def find_spec(
        self, fullname: str, path: Any = None, target: types.ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        """Returns the spec of such a module; None for others.

        A library finds only modules that version 2's API has as well.

        Args:
            fullname: The module's name.
            path: Ignored.
            target: Ignored.
        """
        if fullname.partition(".")[0] != "tensorflow":
            return None
        if fullname != "tensorflow" and _version_1(fullname) is None:
            return None
        if not callers.is_program() and _version_2(fullname) is None:
            return None
        return machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: machinery.ModuleSpec) -> types.ModuleType:
        """Returns the module.

        Args:
            spec: The spec of the module.
        """
        return Tensorflow(spec.name, _version_2(spec.name))

    def exec_module(self, module: types.ModuleType) -> None:
        """Does nothing, also when the module is reloaded.

        Args:
            module: The module.
        """


def _namespace(module: types.ModuleType) -> dict[str, Any]:
    """Returns the module's real namespace, which its property `__dict__` hides."""
    namespace: Any = vars(types.ModuleType)["__dict__"]
    return namespace.__get__(module)


def _seen(module: types.ModuleType, is_program: bool, name: str) -> Any:
    """Returns the module of the API that a file sees.

    Args:
        module: The `Tensorflow`.
        is_program: Whether the file belongs to the program.
        name: The name that is looked up.
    """
    full = module.__name__
    if is_program and not (full == "tensorflow" and name in _SHARED):
        return _version_1(full)
    real = _real[full]
    if real is None:
        raise AttributeError(f"TensorFlow {tf.__version__} has no module {full!r}")
    return real


def _version_1(name: str) -> types.ModuleType | None:
    """Returns the module of version 1's API with a name such as "tensorflow.keras", or None."""
    return _below(tf, name)


def _version_2(name: str) -> types.ModuleType | None:
    return _below(_real["tensorflow"] if _real else _installed, name)


def _below(module: types.ModuleType, name: str) -> types.ModuleType | None:
    _, *parts = name.split(".")
    if parts and parts[0] in _SHARED:
        return None
    found: Any = module
    for part in parts:
        found = getattr(found, part, None)
        if not isinstance(found, types.ModuleType):
            return None
    return found


def _warn_of_earlier_uses() -> None:
    """Warns of modules that imported TensorFlow before `install`, and of eager execution."""
    early = sorted(
        {
            module.__name__
            for module in list(sys.modules.values())
            if callers.is_program_module(module)
            and any(value is sys.modules["tensorflow"] for value in list(vars(module).values()))
        }
    )
    if early:
        tf.logging.warning(
            "replicate: %s imported TensorFlow before replicate.compat.install(tensorflow_1=True), "
            "and go on with version 2's names. Call it first.",
            ", ".join(early),
        )
    if graph.has_run_eagerly():
        tf.logging.warning(
            "replicate: TensorFlow ran eagerly before replicate.compat.install(tensorflow_1=True), "
            "which turns eager mode off: eager tensors and variables cannot be used in a graph. "
            "Call it first."
        )
