"""Gradient descent with momentum by a learning rate in steps, the same on every engine.

It is the optimizer of TensorFlow 1, which works eagerly and in functions too. That of Keras keeps
the learning rate in its momentum, so that another rate would act later there.
"""

import json

import tensorflow.compat.v1 as tf

from examples.revnet.training import train_settings


class PiecewiseConstant(
    tf.keras.optimizers.schedules.LearningRateSchedule, tf.train.experimental.PythonState
):
    """A learning rate that changes at some steps; checkpoints hold it.

    Args:
        rates: Learning rates, one after the other: a list of floats.
        boundaries: Steps from which on the next one holds: a rising list, by one shorter.
        dtype: Name of the type of the rate.
    """

    def __init__(self, rates, boundaries, dtype="float32"):
        super().__init__()
        self._config = {"rates": list(rates), "boundaries": list(boundaries), "dtype": dtype}

    def __call__(self, step):
        """Returns the learning rate of a step, an integer scalar; the first step is 0."""
        rates = tf.constant(self._config["rates"], self._config["dtype"])
        boundaries = tf.constant(self._config["boundaries"], tf.int64)
        passed = tf.cast(tf.cast(step, tf.int64) >= boundaries, tf.int32)
        return tf.gather(rates, tf.reduce_sum(passed))

    def get_config(self):
        """Returns the arguments of the constructor."""
        return dict(self._config)

    def serialize(self):
        """Returns what a checkpoint holds of it, a string."""
        return json.dumps(self._config)

    def deserialize(self, string_value):
        """Takes over what a checkpoint holds."""
        self._config = json.loads(string_value)


def schedule(params):
    """Returns the schedule of resolved settings."""
    dtype = train_settings.network(params).variable_dtype
    return PiecewiseConstant(params["learning_rates"], params["boundaries"], dtype)


def momentum(learning_rate, params):
    """Returns the optimizer of resolved settings.

    Args:
        learning_rate: Float scalar, or a function that returns it.
        params: Settings, of which `momentum` is used.
    """
    return tf.train.MomentumOptimizer(learning_rate, params["momentum"])
