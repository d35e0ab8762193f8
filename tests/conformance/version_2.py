"""What `tf.estimator` is to code of TensorFlow 2, on every version."""

import importlib

from replicate import estimator


def api():
    """Returns the module that holds it."""
    dir(estimator)  # Which brings it back where TensorFlow has it no more.
    return importlib.import_module("tensorflow_estimator.python.estimator.api._v2.estimator")
