"""Puts the Estimator, the towers and `tf.contrib` where files written for TensorFlow 1 look."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any, Mapping, Sequence

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from replicate.compat import environment, estimator, moved


def install(
    replace_ancestor: bool, tensorflow_1: bool | Sequence[str], offered: Mapping[str, Any]
) -> None:
    """Does the work of `replicate.compat.install`.

    Args:
        replace_ancestor: As for `replicate.compat.install`.
        tensorflow_1: As for `replicate.compat.install`.
        offered: Replacements for names of `tf.contrib.estimator`, by name.
    """
    is_1 = environment.is_1(tf.__version__)
    packages = _packages(tensorflow_1)
    environment.check_estimator()
    if not hasattr(tf, "estimator"):
        tf.estimator = estimator.api()
    if not hasattr(tf2, "estimator"):
        from replicate.compat import revival

        tf2.estimator = revival.estimator("v2")
    if not is_1:
        _install_contrib(offered)
        moved.install()
    elif not hasattr(tf, "contrib"):
        tf.contrib = tf2.contrib  # Not imported before it is used.
    if is_1 and replace_ancestor:
        # The import takes seconds, so only on request.
        ancestors = importlib.import_module("tensorflow.contrib.estimator")
        for name, value in offered.items():
            setattr(ancestors, name, value)
    if packages is not None and not is_1:
        from replicate.migration import tensorflow_1 as first

        first.install(packages)


def _packages(tensorflow_1: Any) -> tuple[str, ...] | None:
    """Returns the names of installed packages that mean TensorFlow 1, None if no file does."""
    if isinstance(tensorflow_1, bool):
        return () if tensorflow_1 else None
    is_collection = isinstance(tensorflow_1, (list, tuple, set, frozenset)) and tensorflow_1
    if is_collection and all(isinstance(one, str) and one.isidentifier() for one in tensorflow_1):
        return tuple(tensorflow_1)
    raise TypeError(
        "tensorflow_1 is True, False, or a tuple of names of installed packages that are written "
        f"for TensorFlow 1, such as ('mypackage',), got {tensorflow_1!r}."
    )


def _install_contrib(offered: Mapping[str, Any]) -> None:
    from replicate.migration.contrib import modules

    ours = sys.modules.get(modules.ROOT)
    if not any(isinstance(finder, modules.Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, modules.Finder())
    others = [getattr(tf2, "contrib", None), getattr(tf, "contrib", None), ours]
    if not isinstance(ours, modules.Contrib):
        sys.modules.pop(modules.ROOT, None)
        ours = importlib.import_module(modules.ROOT)
    for other in others:
        if other is not None and other is not ours:
            _adopt(ours, other)
    tf2.contrib = tf.contrib = ours
    for name, value in offered.items():
        if not hasattr(ours.estimator, name):  # Keep names that other code has set.
            setattr(ours.estimator, name, value)


def _adopt(module: types.ModuleType, other: object) -> None:
    """Keeps names that other code has set in `tf.contrib`, or in a module of it.

    Args:
        module: Our module.
        other: The module, or namespace, of the other code.
    """
    for name, value in list(getattr(other, "__dict__", {}).items()):
        if name.startswith("__"):
            continue
        part = None
        if isinstance(value, (types.ModuleType, types.SimpleNamespace)):
            part = getattr(module, name, None)
        if isinstance(part, type(module)) and part is not value:
            _adopt(part, value)
        else:
            setattr(module, name, value)
