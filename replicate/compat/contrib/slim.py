"""Lets tf-slim 1.1.0 work on TensorFlow 2.13 and newer, and tensorflow-gan 2.1.0 on Python 3.11.

They can be imported there. But tf-slim calls ten names that have left the modules which it takes
them from: tensors, control flow and variables, which have public names, and `BatchNormalization`,
which TensorFlow looks for in a Keras that does not have it. And tensorflow-gan, in `gan_loss`, asks
for arguments by `inspect.getargspec`. `mend` gives their own modules another view of these modules,
which has such names besides. TensorFlow's and Python's modules, and what others see of them, stay
as they are.
"""

from __future__ import annotations

import collections
import inspect
import sys
import types

import tensorflow.compat.v1 as tf

PACKAGES = ("tensorflow_gan", "tf_slim")
"""The packages that are mended, by the modules that they are imported by."""


_ArgSpec = collections.namedtuple("_ArgSpec", "args varargs keywords defaults")


def _getargspec(function):
    """Returns what Python 3.10 and older did of a function without keyword-only arguments."""
    return _ArgSpec(*inspect.getfullargspec(function)[:4])


# By the module of TensorFlow or Python, what is missing there, and where it is now.
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
    """A module as another has it, with names besides."""

    def __init__(self, module, moved):
        super().__init__(module.__name__, module.__doc__)
        self.__dict__["_module"] = module
        self.__dict__["_moved"] = moved

    def __getattr__(self, name):
        if name in self._moved:
            return self._moved[name]()
        return getattr(self._module, name)

    def __dir__(self):
        return sorted({*dir(self._module), *self._moved})


def mend() -> None:
    """Gives the modules of `PACKAGES` that are imported what they lack; again, nothing."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES and module is not None:
            for attribute, value in list(vars(module).items()):
                # A view is a module of the same name.
                if type(value) is not _View and isinstance(value, types.ModuleType):
                    moved = _missing(value)
                    if moved:
                        setattr(module, attribute, _View(value, moved))


def _missing(module):
    """Returns what a module lacks of what the packages call there."""
    moved = _MOVED.get(module.__name__, {})
    return {name: make for name, make in moved.items() if not _has(module, name)}


def _has(module, name):
    try:
        return hasattr(module, name)
    except ImportError:  # It says that it has it, in a module that is not there.
        return False
