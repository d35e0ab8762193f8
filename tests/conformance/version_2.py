"""`tf.estimator` as TensorFlow 2 has it, on every version, and the heads of version 1."""

import importlib

from replicate import estimator


def api():
    """Returns the module that holds it."""
    dir(estimator)  # Which brings it back where TensorFlow has it no more.
    return importlib.import_module("tensorflow_estimator.python.estimator.api._v2.estimator")


def heads_of_1():
    """Returns the module of the heads that `tf.contrib.estimator` had, which are private now."""
    dir(estimator)
    return importlib.import_module("tensorflow_estimator.python.estimator.canned.head")
