"""The Estimator API to use: `replicate.estimator.Estimator`, `.RunConfig`, `.EstimatorSpec`, ...

TensorFlow 2.12 to 2.15 carry it as `tf.compat.v1.estimator`; every name is looked up there.
"""

import sys

import tensorflow.compat.v1 as tf


def __getattr__(name):
    return getattr(tf.estimator, name)


def __dir__():
    return dir(tf.estimator)


def source():
    """Returns where the Estimator comes from, for people to read."""
    try:
        from importlib import metadata  # Python 3.8
    except ImportError:
        return "tf.estimator"
    return f"tf.estimator, from tensorflow-estimator {metadata.version('tensorflow-estimator')}"


def is_estimator_spec(value):
    """Whether `value` is an `EstimatorSpec`."""
    return isinstance(value, tf.estimator.EstimatorSpec)


def is_export_output(value):
    """Whether `value` is a `ClassificationOutput`, `RegressionOutput`, `PredictOutput` or such."""
    return isinstance(value, tf.estimator.export.ExportOutput)


def is_exporting():
    """Whether an Estimator is building the graph of a SavedModel right now.

    Estimator gives `model_fn` no sign of it, in no mode: the only difference is who calls, and a
    SavedModel with towers in it would not be portable. So this looks for the method that builds
    the graphs of a SavedModel among the callers.
    """
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_add_meta_graph_for_mode" and "estimator" in code.co_filename:
            return True
        frame = frame.f_back
    return False
