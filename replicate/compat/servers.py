"""Gives the server of a cluster's task the devices that its sessions are configured for.

An Estimator starts the server of its task itself, and of the `session_config` of its `RunConfig`
hands on the GPU options alone. So a worker would have one CPU device, whatever `device_count` says,
and towers on others would be moved there in silence, as `allow_soft_placement` allows.
"""

import functools
import types

import tensorflow.compat.v1 as tf

from replicate.compat import estimator


@functools.lru_cache(maxsize=None)
def install():
    """Makes servers that Estimators start from now on have those devices. Does so once."""
    estimator.api()  # Where it is gone from TensorFlow, this brings it back.
    from tensorflow_estimator.python.estimator import training

    start = training._TrainingExecutor._start_std_server

    def start_with_devices(self, config):
        sessions = config.session_config
        if sessions is None:
            return start(self, config)

        def server(*args, **kwargs):
            given = tf.ConfigProto()
            given.CopyFrom(sessions)
            # They say whom a session may wait for. A server answers all.
            given.ClearField("device_filters")
            return tf.train.Server(*args, **{**kwargs, "config": given})

        own, training.server_lib = training.server_lib, types.SimpleNamespace(Server=server)
        try:
            return start(self, config)
        finally:
            training.server_lib = own

    training._TrainingExecutor._start_std_server = start_with_devices
