"""The Estimator API to use: `replicate.estimator.Estimator`, `.RunConfig`, `.EstimatorSpec`, ...

TensorFlow 1.15 to 2.15 have it as `tf.compat.v1.estimator`. For newer versions, it is restored from
the package tensorflow-estimator at the first access to one of its names.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import tensorflow.compat.v1 as tf

from replicate.compat import environment


@functools.lru_cache(maxsize=None)
def api() -> Any:
    """Returns the module that holds the API.

    Raises:
        ImportError: If the Estimator cannot work in this process. The message says what to run.
    """
    environment.check_estimator()
    if hasattr(tf, "estimator"):
        return tf.estimator
    from replicate.compat import revival

    return revival.estimator()


def offered() -> Any:
    """Returns the object `replicate.estimator`, which has all names of the API.

    On TensorFlow 1 it is TensorFlow's module. On newer versions it is this module, which checks
    first that the Estimator can work.
    """
    return tf.estimator if environment.is_1(tf.__version__) else sys.modules[__name__]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # Python's lookups must not import the Estimator.
        raise AttributeError(name)
    return getattr(api(), name)


def __dir__() -> list[str]:
    return dir(api())


def source() -> str:
    """Returns a text that says where the Estimator comes from."""
    version = environment.version_of("tensorflow-estimator")
    if (environment.parse(tf.__version__) or (0,)) < environment.FIRST_WITHOUT_ESTIMATOR:
        return f"tf.estimator, from tensorflow-estimator {version}"
    return f"brought back from tensorflow-estimator {version}"


def is_estimator_spec(value: object) -> bool:
    """Whether `value` is an `EstimatorSpec`."""
    return isinstance(value, api().EstimatorSpec)


def is_tpu_estimator_spec(value: object) -> bool:
    """Whether `value` is a `TPUEstimatorSpec`, or the simpler one that Estimator's heads make."""
    return hasattr(value, "as_estimator_spec")  # Access to the classes would log deprecations.


def is_exporting() -> bool:
    """Whether an Estimator is building the graph of a SavedModel right now.

    A SavedModel with towers in it would not be portable, but the Estimator does not tell `model_fn`
    in any mode that it exports. The only difference is the caller. So this searches the callers for
    the method that builds the graphs of a SavedModel.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_add_meta_graph_for_mode" and "estimator" in code.co_filename:
            return True
        frame = frame.f_back
    return False


def start_as(model_fn: Any, config: Any) -> None:
    """Warm-starts like the Estimator that `model_fn` was taken from, if there is one.

    Args:
        model_fn: Any function.
        config: The `RunConfig`, or None.
    """
    settings = start_left_behind(model_fn)
    model_dir = getattr(config, "model_dir", None)
    if settings is None or model_dir is None or is_exporting():
        return
    if not tf.train.latest_checkpoint(model_dir):
        tf.train.warm_start(*settings)


def start_left_behind(model_fn: Any) -> Any:
    """Returns the `WarmStartSettings` of the Estimator whose `model_fn` this is, None if none.

    `Estimator.model_fn` is a function that closes over the Estimator. It does not perform the
    Estimator's warm start, such as from the weights of a Keras model after `model_to_estimator`.
    """
    if getattr(model_fn, "__qualname__", "") != "Estimator.model_fn.<locals>.public_model_fn":
        return None
    owners = [cell.cell_contents for cell in model_fn.__closure__ or ()]
    owners = [owner for owner in owners if isinstance(owner, api().Estimator)]
    return getattr(owners[0], "_warm_start_settings", None) if owners else None
