"""Makes `tensorflow-estimator` 2.15.0 work on TensorFlow 2.16 and newer.

The Estimator itself still works, but it cannot be imported: a decorator looks up a name that
TensorFlow removed from a table, and a few modules of TensorFlow are gone. This module adds these
names, once, and only those that TensorFlow lacks:

    tf_export.ESTIMATOR_API_NAME     and its entries in the tables of exported names
    distribute.estimator_training    for tf.distribute in clusters: `estimator_training.py` here
    tpu.session_support              heartbeats of TPU workers: `session_support.py` here
    tpu.tpu_embedding                large embeddings on TPUs: classes that raise when called
    tpu.tpu_embedding_gradient       the same
"""

from __future__ import annotations

import importlib
import sys
import threading
import types
from importlib import util
from typing import Any, NoReturn

from tensorflow.python.util import tf_export

_API = "tensorflow_estimator.python.estimator.api._{}.estimator"
GONE = {
    "tensorflow.python.distribute.estimator_training": "replicate.compat.estimator_training",
    "tensorflow.python.tpu.session_support": "replicate.compat.session_support",
    "tensorflow.python.tpu.tpu_embedding": None,
    "tensorflow.python.tpu.tpu_embedding_gradient": None,
}

_lock = threading.Lock()


def estimator(version: str = "v1") -> types.ModuleType:
    """Returns the Estimator API as a module, like `tf.estimator` before TensorFlow 2.16.

    Args:
        version: 'v1' for the API of `tensorflow.compat.v1`, 'v2' for that of `tensorflow`.
    """
    with _lock:
        _declare_name()
        for name, substitute in GONE.items():
            if name not in sys.modules and util.find_spec(name) is None:
                sys.modules[name] = (
                    importlib.import_module(substitute) if substitute else Refusing(name)
                )
        return importlib.import_module(_API.format(version))


def _declare_name() -> None:
    """Lets `tf_export` mark symbols as exported by the API `estimator`."""
    if hasattr(tf_export, "ESTIMATOR_API_NAME"):
        return
    tf_export.ESTIMATOR_API_NAME = name = "estimator"
    attributes = type(tf_export.API_ATTRS[tf_export.TENSORFLOW_API_NAME])
    tf_export.API_ATTRS[name] = attributes(f"_{name}_api_names", f"_{name}_api_constants")
    tf_export.API_ATTRS_V1[name] = attributes(f"_{name}_api_names_v1", f"_{name}_api_constants_v1")


class Refusing(types.ModuleType):
    """Replaces a module that is gone: has a class for any name, whose constructor raises."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)

        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise NotImplementedError(
                f"Embeddings on TPUs need {self.__name__}.{name}, which TensorFlow 2.16 removed. "
                "Look embeddings up with `tf.nn.embedding_lookup`, or use TensorFlow 2.15."
            )

        return type(name, (), {"__new__": refuse})
