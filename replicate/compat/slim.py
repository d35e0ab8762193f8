"""Makes tf-slim 1.1.0 work on TensorFlow 2.13 and newer, and tensorflow-gan 2.1.0 on Python 3.11.

They can be imported there. But tf-slim uses ten names that TensorFlow removed from their modules:
tensors, control flow and variables, which have public names, and `BatchNormalization`, which
TensorFlow looks up in a Keras that does not have it. And tensorflow-gan's `gan_loss` calls
`inspect.getargspec`. `mend` replaces these modules, in the namespaces of the two packages only, by
views that have the names as well. TensorFlow's and Python's modules do not change, nor does any
other code see the views.
"""

from __future__ import annotations

import collections
import inspect
import sys
import types
from typing import Any, Callable, Mapping

import tensorflow.compat.v1 as tf

PACKAGES = ("tensorflow_gan", "tf_slim")
"""Names of the modules of the packages that are mended."""


_ArgSpec = collections.namedtuple("_ArgSpec", "args varargs keywords defaults")


def _getargspec(function: Callable[..., Any]) -> _ArgSpec:
    """Does the same as Python 3.10's function, for functions without keyword-only arguments."""
    return _ArgSpec(*inspect.getfullargspec(function)[:4])


# Names that are missing in a module of TensorFlow or Python, with functions that return them.
_MOVED = {
    "inspect": {"getargspec": lambda: _getargspec},
    "tensorflow.python.framework.ops": {
        "IndexedSlices": lambda: tf.IndexedSlices,
        "Tensor": lambda: tf.Tensor,
    },
    "tensorflow.python.layers.normalization": {
        "BatchNormalization": lambda: tf.layers.BatchNormalization,
    },
    "tensorflow.python.ops.array_ops": {
        "stack": lambda: tf.stack,
        "unstack": lambda: tf.unstack,
    },
    "tensorflow.python.ops.control_flow_ops": {
        "Assert": lambda: tf.Assert,
        "case": lambda: tf.case,
        "cond": lambda: tf.cond,
        "while_loop": lambda: tf.while_loop,
    },
    "tensorflow.python.ops.variable_scope": {
        "variable": lambda: tf.Variable,
    },
}


class _View(types.ModuleType):
    """A view of a module that has additional names."""

    def __init__(self, module: types.ModuleType, moved: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__(module.__name__, module.__doc__)
        self.__dict__["_module"] = module
        self.__dict__["_moved"] = moved

    def __getattr__(self, name: str) -> Any:
        if name in self._moved:
            return self._moved[name]()
        return getattr(self._module, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._module), *self._moved})


def mend() -> None:
    """Mends the imported modules of `PACKAGES`; does nothing to those that are mended already."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES and module is not None:
            for attribute, value in list(vars(module).items()):
                # A view has the name of its module: without the check it would be wrapped again.
                if type(value) is not _View and isinstance(value, types.ModuleType):
                    moved = _missing(value)
                    if moved:
                        setattr(module, attribute, _View(value, moved))


def _missing(module: types.ModuleType) -> dict[str, Callable[[], Any]]:
    """Returns the names that the packages use in a module and that it lacks."""
    moved = _MOVED.get(module.__name__, {})
    return {name: make for name, make in moved.items() if not _has(module, name)}


def _has(module: types.ModuleType, name: str) -> bool:
    try:
        return hasattr(module, name)
    except ImportError:  # A lazy name whose module does not exist.
        return False
