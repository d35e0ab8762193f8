"""What towers need of Keras and has no public name."""

import contextlib
import sys

import tensorflow.compat.v1 as tf
import tensorflow.compat.v2 as tf2


def layer_name_counts():
    """How often each name of an unnamed layer was given out: dictionaries by graph."""
    return sys.modules[tf.keras.backend.get_uid.__module__].PER_GRAPH_OBJECT_NAME_UIDS


def _layer_classes():
    """The classes that turn regularizers into losses: Keras layers' of TF 1 and TF 2 behaviour."""
    found = []
    for layer in (tf.keras.layers.Layer, tf2.keras.layers.Layer, tf.layers.Layer):
        for cls in layer.__mro__:
            if "_handle_weight_regularization" in vars(cls) and cls not in found:
                found.append(cls)
    return found


@contextlib.contextmanager
def regularizers_wrapped(wrap):
    """A scope in which weight penalties that Keras layers make are `wrap(penalty)`.

    Keras keeps the penalties of a layer to itself, as functions, so this is the only place to
    reach them. A layer made in this scope goes on with `wrap` after it.

    Args:
        wrap: Function from a penalty, a scalar tensor or None, to the one to use.
    """
    classes = _layer_classes()
    originals = [vars(cls)["_handle_weight_regularization"] for cls in classes]

    def wrapped(original):
        def handle(self, name, variable, regularizer):
            return original(self, name, variable, lambda value: wrap(regularizer(value)))

        return handle

    for cls, original in zip(classes, originals):
        cls._handle_weight_regularization = wrapped(original)
    try:
        yield
    finally:
        for cls, original in zip(classes, originals):
            cls._handle_weight_regularization = original
