"""Puts the Estimator and the towers where files written for TensorFlow 1 look for them."""

import importlib
import types

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from replicate.compat import environment, estimator


def install(replace_ancestor, offered):
    """See `replicate.compat.install`; `offered` has by name what takes the ancestor's place."""
    environment.check_estimator()
    if not hasattr(tf, "estimator"):
        tf.estimator = estimator.api()
    if not hasattr(tf2, "estimator"):
        from replicate.compat import revival

        tf2.estimator = revival.estimator("v2")
    contrib = _submodule(tf, "contrib")
    towers = _submodule(contrib, "estimator")
    for name, value in offered.items():
        if not hasattr(towers, name):
            setattr(towers, name, value)
    if replace_ancestor and environment.is_1(tf.__version__):
        ancestors = importlib.import_module("tensorflow.contrib.estimator")  # Takes seconds.
        for name, value in offered.items():
            setattr(ancestors, name, value)


def _submodule(module, name):
    """Returns an attribute of a module that is a module, which is made if there is none."""
    if not hasattr(module, name):
        setattr(module, name, types.ModuleType(f"{module.__name__}.{name}"))
    return getattr(module, name)
