"""A library that `test_tensorflow_1.py` installs: it expects TensorFlow 2."""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers as keras_layers
from tensorflow.keras.layers import BatchNormalization


def answers():
    return {
        "has placeholder": hasattr(tf, "placeholder"),
        "names": "placeholder" in dir(tf) or "placeholder" in vars(tf),
        "metrics": hasattr(tf.metrics, "mean_iou"),
        "keras": keras.layers.BatchNormalization is BatchNormalization,
        "layers": keras_layers.BatchNormalization is BatchNormalization,
        "is of 1": BatchNormalization is tf.compat.v1.keras.layers.BatchNormalization,
        "named": getattr(tf, "named_by_the_program", None),
    }
