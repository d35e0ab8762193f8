"""Puts modules of TensorFlow that moved under their former names; `install` calls it.

tensorflow.python.estimator                 tensorflow_estimator.python.estimator
tf.keras.mixed_precision.experimental       the names that `tf.keras.mixed_precision` still has
"""

from __future__ import annotations

import importlib
import sys
import types
from importlib import abc, machinery, util
from typing import Any

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2

_ESTIMATOR = "tensorflow.python.estimator"
_MOVED = {  # The first match counts.
    f"{_ESTIMATOR}.keras": "tensorflow_estimator.python.estimator.keras_lib",
    _ESTIMATOR: "tensorflow_estimator.python.estimator",
}


def install() -> None:
    """Adds the modules that TensorFlow lacks."""
    if util.find_spec(_ESTIMATOR) is None:
        sys.meta_path.insert(0, _Finder())
    if not hasattr(tf2.keras.mixed_precision, "experimental"):
        experimental = _mixed_precision()
        # `import tensorflow.keras.mixed_precision` gives yet another module.
        imported: Any = importlib.import_module("tensorflow.keras.mixed_precision")
        for module in (tf.keras.mixed_precision, tf2.keras.mixed_precision, imported):
            module.experimental = experimental


class _Finder(abc.MetaPathFinder, abc.Loader):
    """Finds modules that moved."""

    def find_spec(
        self, fullname: str, path: Any = None, target: types.ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        """Returns the spec of a moved module, None for others."""
        is_moved = f"{fullname}.".startswith(f"{_ESTIMATOR}.")
        return machinery.ModuleSpec(fullname, self, is_package=True) if is_moved else None

    def exec_module(self, module: types.ModuleType) -> None:
        """Replaces an empty module by the moved one, under its former name."""
        name = module.__name__
        old = next(old for old in _MOVED if f"{name}.".startswith(f"{old}."))
        new = f"{_MOVED[old]}{name[len(old) :]}"
        found: Any = importlib.import_module(new)
        if name == _ESTIMATOR:  # `from ... import keras` reads the module's attribute.
            found.keras = importlib.import_module(_MOVED[f"{_ESTIMATOR}.keras"])
        sys.modules[name] = found


def _mixed_precision() -> types.ModuleType:
    now = tf2.keras.mixed_precision
    made: Any = types.ModuleType("tensorflow.keras.mixed_precision.experimental")
    made.Policy = now.Policy
    made.set_policy = now.set_global_policy
    made.global_policy = now.global_policy
    made.LossScaleOptimizer = _loss_scale_optimizer
    return made


def _loss_scale_optimizer(optimizer: Any, loss_scale: Any) -> Any:
    """Does the same as the former `tf.keras.mixed_precision.experimental.LossScaleOptimizer`.

    Args:
        optimizer: An optimizer of Keras 2.
        loss_scale: A number, 'dynamic', or a loss scale of `tf.compat.v1.mixed_precision` or
            `replicate.loss_scale`, fixed or dynamic.

    Raises:
        ValueError: If `loss_scale` is of another kind, or its multiplier is not 2.
    """
    make = tf2.keras.mixed_precision.LossScaleOptimizer
    if loss_scale == "dynamic":
        return make(optimizer)
    if isinstance(loss_scale, (int, float)):
        return make(optimizer, dynamic=False, initial_scale=loss_scale)
    config = loss_scale.get_config() if hasattr(loss_scale, "get_config") else {}
    if "loss_scale_value" in config:
        return make(optimizer, dynamic=False, initial_scale=config["loss_scale_value"])
    if config.get("multiplier") == 2:
        initial, steps = config["initial_loss_scale"], config["increment_period"]
        return make(optimizer, initial_scale=initial, dynamic_growth_steps=steps)
    raise ValueError(
        "`loss_scale` must be a number, 'dynamic', a `FixedLossScale`, or a `DynamicLossScale` "
        f"with the multiplier 2, which is all that Keras has, but is {loss_scale!r}. Or wrap an "
        "optimizer of `tf.train` in `replicate.TowerOptimizer(loss_scale=...)`."
    )
