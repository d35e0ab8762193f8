"""Lets somebody else make gradients, and apply them, while a model is built."""

from __future__ import annotations

import contextlib
import functools
import threading

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import gradients_util

_lock = threading.RLock()
_installed: list = []
_appliers: list = []
_replaced: list = []  # Classes, names of their methods and these as they were.


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


@contextlib.contextmanager
def gradients_applied_by(function):
    """A scope in which a function gets what optimizers are given to apply.

    It gets that of every optimizer of `tf.train` and of Keras, and of all that derive from these,
    whether they call their base or not; also of classes that are made in the scope.

    Args:
        function: Function that takes the optimizer's own method, then the optimizer and what that
            method takes.
    """
    with _lock:
        _appliers.append(function)
        if len(_appliers) == 1:
            for base in _optimizer_bases():
                _replaced.append((base, "__init__", base.__init__))
                base.__init__ = _initializer(base.__init__)
                for cls in [base, *_subclasses(base)]:
                    _replace_in(cls)
    try:
        yield
    finally:
        with _lock:
            _appliers.pop()
            while _replaced and not _appliers:
                cls, name, original = _replaced.pop()
                setattr(cls, name, original)


def _optimizer_bases():
    """The classes that optimizers of this TensorFlow derive from."""
    found = [tf.train.Optimizer]
    with contextlib.suppress(AttributeError, ImportError):
        found += [tf.keras.optimizers.Optimizer, tf.keras.optimizers.legacy.Optimizer]
    return [base for base in dict.fromkeys(found) if hasattr(base, "apply_gradients")]


def _subclasses(cls):
    for derived in type.__subclasses__(cls):
        yield derived
        yield from _subclasses(derived)


def _replace_in(cls):
    original = vars(cls).get("apply_gradients")
    if original is not None and not hasattr(original, "is_of_towers"):
        _replaced.append((cls, "apply_gradients", original))

        @functools.wraps(original)
        def apply_gradients(self, *args, **kwargs):
            return _appliers[-1](original, self, *args, **kwargs)

        apply_gradients.is_of_towers = True
        cls.apply_gradients = apply_gradients


def _initializer(original):
    @functools.wraps(original)
    def initialize(self, *args, **kwargs):
        with _lock:
            for cls in type(self).__mro__ if _appliers else ():
                _replace_in(cls)
        return original(self, *args, **kwargs)

    return initialize
