"""Gives the server of a cluster's task the devices of its session configuration.

An Estimator starts the server of its task, but passes only the GPU options of the `session_config`
in its `RunConfig`. So a worker would have one CPU device, for any `device_count`, and with
`allow_soft_placement` towers on other devices would silently move there.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat import estimator


@functools.lru_cache(maxsize=None)
def install() -> None:
    """Makes Estimators start servers with those devices; further calls do nothing."""
    estimator.api()  # Restores the Estimator if TensorFlow has dropped it.
    from tensorflow_estimator.python.estimator import training

    start = training._TrainingExecutor._start_std_server

    def start_with_devices(self: Any, config: Any) -> Any:
        sessions = config.session_config
        if sessions is None:
            return start(self, config)

        def server(*args: Any, **kwargs: Any) -> tf.train.Server:
            given = tf.ConfigProto()
            given.CopyFrom(sessions)
            # Filters are for sessions: a server must answer all tasks.
            given.ClearField("device_filters")
            return tf.train.Server(*args, **{**kwargs, "config": given})

        original, training.server_lib = training.server_lib, types.SimpleNamespace(Server=server)
        try:
            return start(self, config)
        finally:
            training.server_lib = original

    training._TrainingExecutor._start_std_server = start_with_devices
