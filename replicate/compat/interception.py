"""Lets somebody else make gradients, while a model is built."""

import contextlib
import functools
import threading

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import gradients_util

_lock = threading.RLock()
_installed = []


@contextlib.contextmanager
def gradients_made_by(of_graph, of_tape):
    """A scope in which gradients of graphs and tapes are made by functions.

    Every way to gradients leads there: `tf.gradients`, all optimizers, Keras' `get_gradients`.

    Args:
        of_graph: Function that takes what TensorFlow's does: that first, then `ys`, `xs`, `grad_ys`
            and more.
        of_tape: Function that takes the tape's `gradient` method, then the tape, `target`,
            `sources`, `output_gradients` and more.
    """
    with _lock:
        if not _installed:
            _installed.append((gradients_util._GradientsHelper, tf.GradientTape.gradient))
            helper, method = _installed[0]
            gradients_util._GradientsHelper = functools.wraps(helper)(
                functools.partial(of_graph, helper)
            )
            tf.GradientTape.gradient = _method(method, of_tape)
        else:
            _installed.append(None)
    try:
        yield
    finally:
        with _lock:
            originals = _installed.pop()
            if originals is not None:
                gradients_util._GradientsHelper, tf.GradientTape.gradient = originals


def _method(original, function):
    @functools.wraps(original)
    def gradient(self, *args, **kwargs):
        return function(original, self, *args, **kwargs)

    return gradient
