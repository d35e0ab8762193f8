"""A codebase of TensorFlow 1.12, not to be modernised, whose files import in every style of then.

`test_tensorflow_1.py` runs it on newer TensorFlows, with nothing changed but the program that
starts it.
"""

import tensorflow as tf

from contrib_codebase.features import input_fn
from contrib_codebase.models import model_fn, replicated

__all__ = ["DEFAULTS", "input_fn", "model_fn", "replicated"]
DEFAULTS = tf.contrib.training.HParams(units=3, rate=0.1, wide=[4, 5], activation="tanh")
