"""What tests take from TensorFlow where its name depends on the version."""

import tensorflow.compat.v1 as tf

IS_1 = tf.__version__.startswith("1.")
IS_OLD = tuple(map(int, tf.__version__.split(".")[:2])) < (2, 12)

# Files of tests of what TensorFlow 1.15 alone has.
ONLY_IN_1 = ["test_ancestor.py", "test_tf1.py"]
# Rows of the conformance table whose code asks for what TensorFlow 1.15 does not have.
ROWS_NOT_IN_1 = {
    "keras_optimizer": "`global_clipnorm` of Keras' optimizers",
    "train_and_evaluate": "`saving_listeners` of `EvalSpec` and `TrainSpec`",
}
# Rows that TensorFlow 1.15 makes look like ones of float32, which may deviate more.
COARSER_IN_1 = {
    "rnn_while_loop": "gradients of its loops add up numbers that tell the order of arrays alone"
}
# Rows that on one device depend on chance if what reads a variable and what updates it share its
# memory, or that cannot do without resource variables there.
ROWS_OF_RESOURCES = {
    "multi_head": "two optimizers update what gradients of one another are made from",
    "modules": "likewise",
    "head_optimizer": "Keras' optimizers make slots for resource variables alone",
    "keras_estimator": "likewise",
    "keras_averaging": "likewise",
}

# TensorFlow 2.4 gave it a name of its own.
mixed_precision = getattr(tf, "mixed_precision", tf.train.experimental)
# Optimizers of Keras 2, which TensorFlow 2.11 moved to make room for others.
legacy = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
