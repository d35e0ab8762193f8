"""What tests take from TensorFlow where its name depends on the version."""

import tensorflow.compat.v1 as tf

IS_1 = tf.__version__.startswith("1.")

mixed_precision = tf.train.experimental if IS_1 else tf.mixed_precision
# Optimizers of Keras 2, which TensorFlow 2.11 moved to make room for others.
legacy = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
